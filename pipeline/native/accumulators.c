/* Accumulators of ids, of pairs of ids and of properties: the same as in `pipeline.identity.accumulators`. What an
 * update of properties does is in property_updates.c.
 *
 * Each is a hash table from two texts to an entry, with linear probing; entries are in the order of their addition. */

#include "accumulators.h"
#include <structmember.h>

#define NEVER (INT64_C(1) << 62)
#define ADDED 1
#define IS_USER 2

/* --- the table ----------------------------------------------------------------------------------------- */

int
same_text(PyObject *text, PyObject *other)
{
    if (text == other)
        return 1;
    if (PyUnicode_GET_LENGTH(text) != PyUnicode_GET_LENGTH(other) || PyUnicode_KIND(text) != PyUnicode_KIND(other))
        return 0;
    size_t size = (size_t)PyUnicode_GET_LENGTH(text) * (size_t)PyUnicode_KIND(text);
    return memcmp(PyUnicode_DATA(text), PyUnicode_DATA(other), size) == 0;
}

static int
grow(Accumulator *self)
{
    Py_ssize_t room = self->room ? self->room * 2 : 256;
    Entry *entries = PyMem_Realloc(self->entries, (size_t)room * sizeof(Entry));
    if (entries == NULL)
        return -1;
    self->entries = entries;
    int32_t *slots = PyMem_Calloc((size_t)room * 2, sizeof(int32_t));
    if (slots == NULL)
        return -1;
    PyMem_Free(self->slots);
    self->slots = slots;
    self->room = room;
    self->mask = (uint64_t)room * 2 - 1;
    for (Py_ssize_t n = 0; n < self->used; n++) {
        uint64_t at = entries[n].hash & self->mask;
        while (slots[at])
            at = (at + 1) & self->mask;
        slots[at] = (int32_t)(n + 1);
    }
    return 0;
}

static uint64_t
hash_of(PyObject *text, PyObject *other)
{
    uint64_t hash = ((uint64_t)PyObject_Hash(text) * UINT64_C(0x9E3779B97F4A7C15)) ^ (uint64_t)PyObject_Hash(other);
    return hash ^ (hash >> 29);
}

int
are_texts(PyObject *text, PyObject *other)
{
    if (PyUnicode_CheckExact(text) && PyUnicode_CheckExact(other))
        return 1;
    PyErr_SetString(PyExc_TypeError, "two str were expected");
    return 0;
}

/* The slot of two texts, or the empty slot where they belong. There has to be room. */
static int32_t *
slot_of(const Accumulator *self, uint64_t hash, PyObject *text, PyObject *other)
{
    uint64_t at = hash & self->mask;
    for (; self->slots[at]; at = (at + 1) & self->mask) {
        const Entry *entry = &self->entries[self->slots[at] - 1];
        if (entry->hash == hash && same_text(entry->text, text) && same_text(entry->other, other))
            break;
    }
    return &self->slots[at];
}

/* The entry that `guess` numbers, where it is that of these two str; NULL otherwise, without an exception. A right
 * guess saves an access to distant memory. */
static Entry *
guessed_entry(const Accumulator *self, int32_t guess, PyObject *text, PyObject *other)
{
    Entry *entry = guess > 0 && guess <= self->used ? &self->entries[guess - 1] : NULL;
    return entry != NULL && same_text(entry->text, text) && same_text(entry->other, other) ? entry : NULL;
}

Entry *
find_entry(const Accumulator *self, int32_t guess, PyObject *text, PyObject *other)
{
    Entry *entry = guessed_entry(self, guess, text, other);
    if (entry != NULL || self->room == 0)
        return entry;
    int32_t number = *slot_of(self, hash_of(text, other), text, other);
    return number ? &self->entries[number - 1] : NULL;
}

Entry *
entry_of(Accumulator *self, int32_t guess, PyObject *text, PyObject *other)
{
    if (!are_texts(text, other))
        return NULL;
    Entry *entry = guessed_entry(self, guess, text, other);
    if (entry != NULL)
        return entry;
    if (self->used == self->room && grow(self) < 0)
        return (Entry *)PyErr_NoMemory();
    uint64_t hash = hash_of(text, other);
    int32_t *slot = slot_of(self, hash, text, other);
    if (*slot)
        return &self->entries[*slot - 1];
    entry = &self->entries[self->used++];
    *slot = (int32_t)self->used;
    *entry = (Entry){.text = Py_NewRef(text), .other = Py_NewRef(other), .hash = hash};
    return entry;
}

int
number_of(PyObject *object, int64_t *number)
{
    *number = PyLong_AsLongLong(object);
    return *number == -1 && PyErr_Occurred() ? -1 : 0;
}

/* Of a property the owner, the name, the kind, the numbers and the value. */
static PyObject *
tuple_of(const Entry *entry)
{
    const int64_t *of = entry->numbers;
    return Py_BuildValue("(OOLLLLN)", entry->text, entry->other, (long long)entry->kind, (long long)of[0],
                         (long long)of[1], (long long)of[2], Py_XNewRef(entry->value));
}

/* All entries as tuples. Creating a tuple may run Python code (the garbage collector does), which may add entries. */
static PyObject *
rows(Accumulator *self, PyObject *Py_UNUSED(ignored))
{
    PyObject *list = PyList_New(0);
    for (Py_ssize_t n = 0; list != NULL && n < self->used; n++) {
        PyObject *tuple = tuple_of(&self->entries[n]);
        if (tuple == NULL || PyList_Append(list, tuple) < 0)
            Py_CLEAR(list);
        Py_XDECREF(tuple);
    }
    return list;
}

/* What a column has of each entry: one of its numbers, of which NUMBER is the first, or another part. */
enum part { ID, TEXT, OTHER, VALUE, KIND, USER, NUMBER };

static int64_t
number_in(const Entry *entry, int part)
{
    return part == KIND ? entry->kind : part == USER ? (entry->kind & IS_USER) != 0 : entry->numbers[part - NUMBER];
}

/* An entry with the beginning of its text, as a number that has the order of the bytes. */
typedef struct {
    uint64_t beginning;
    const char *text;
    Py_ssize_t length;
    Py_ssize_t number;
} Place;

static int
compare_places(const void *first, const void *second)
{
    const Place *one = first, *other = second;
    if (one->beginning != other->beginning)
        return one->beginning < other->beginning ? -1 : 1;
    int order = memcmp(one->text, other->text, (size_t)(one->length < other->length ? one->length : other->length));
    if (order == 0)
        order = (one->length > other->length) - (one->length < other->length);
    return order ? order : (one->number > other->number) - (one->number < other->number);
}

/* The first entries in the order of the bytes of their texts; those of one text in the order of their addition. To be
 * freed; NULL with an exception. */
static Place *
places_in_order(const Accumulator *self, Py_ssize_t count)
{
    Place *places = PyMem_Malloc((size_t)(count + 1) * sizeof(Place));
    if (places == NULL)
        return (Place *)PyErr_NoMemory();
    for (Py_ssize_t n = 0; n < count; n++) {
        Place *place = &places[n];
        place->number = n;
        if ((place->text = PyUnicode_AsUTF8AndSize(self->entries[n].text, &place->length)) == NULL) {
            PyMem_Free(places);
            return NULL;
        }
        unsigned char beginning[8] = {0};
        memcpy(beginning, place->text, (size_t)(place->length < 8 ? place->length : 8));
        place->beginning = 0;
        for (int i = 0; i < 8; i++)
            place->beginning = place->beginning << 8 | beginning[i];
    }
    qsort(places, (size_t)count, sizeof(Place), compare_places);
    return places;
}

/* The n-th entry, where there are places that of the n-th place. */
static const Entry *
entry_at(const Accumulator *self, const Place *places, Py_ssize_t n)
{
    return &self->entries[places == NULL ? n : places[n].number];
}

/* A column of int64 of the first entries. */
static PyObject *
number_column(const Accumulator *self, const Place *places, Py_ssize_t count, int part)
{
    PyObject *column = PyBytes_FromStringAndSize(NULL, count * (Py_ssize_t)sizeof(int64_t));
    if (column == NULL)
        return NULL;
    char *to = PyBytes_AS_STRING(column);
    for (Py_ssize_t n = 0; n < count; n++, to += sizeof(int64_t)) {
        int64_t number = number_in(entry_at(self, places, n), part);
        memcpy(to, &number, sizeof number);
    }
    return column;
}

/* The bytes of a text or of the value of an entry; NULL with an exception. */
static const char *
bytes_of(const Entry *entry, int part, Py_ssize_t *length)
{
    if (part == VALUE) {
        *length = entry->value == NULL ? 0 : PyBytes_GET_SIZE(entry->value);
        return entry->value == NULL ? "" : PyBytes_AS_STRING(entry->value);
    }
    return PyUnicode_AsUTF8AndSize(part == TEXT ? entry->text : entry->other, length);
}

/* Texts one after the other, and int32 with where each begins and the last ends; NULL with an exception. */
static PyObject *
text_column(const Accumulator *self, const Place *places, Py_ssize_t count, int part)
{
    PyObject *ends = PyBytes_FromStringAndSize(NULL, (count + 1) * (Py_ssize_t)sizeof(int32_t)), *whole = NULL;
    if (ends == NULL)
        return NULL;
    Py_ssize_t length;
    int64_t end = 0;
    char *to = PyBytes_AS_STRING(ends);
    memset(to, 0, sizeof(int32_t));
    for (Py_ssize_t n = 0; n < count; n++) {
        if (bytes_of(entry_at(self, places, n), part, &length) == NULL)
            goto failed;
        if ((end += length) > INT32_MAX) {
            PyErr_SetString(PyExc_OverflowError, "a column has more than 2 GiB of text");
            goto failed;
        }
        int32_t written = (int32_t)end;
        memcpy(to += sizeof written, &written, sizeof written);
    }
    if ((whole = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)end)) == NULL)
        goto failed;
    to = PyBytes_AS_STRING(whole);
    for (Py_ssize_t n = 0; n < count; n++) {
        const char *text = bytes_of(entry_at(self, places, n), part, &length); /* which is there: it was measured before */
        memcpy(to, text, (size_t)length);
        to += length;
    }
    return Py_BuildValue("(NN)", ends, whole);
failed:
    Py_DECREF(ends);
    return NULL;
}

/* The ids of the first entries, as a list. */
static PyObject *
id_list(const Accumulator *self, Py_ssize_t count)
{
    PyObject *list = PyList_New(count);
    for (Py_ssize_t n = 0; list != NULL && n < count; n++)
        PyList_SET_ITEM(list, n, Py_NewRef(self->entries[n].text));
    return list;
}

/* A tuple with a column for each part, without ids in the order of the first texts. The entries are counted first: creating an object may run Python code (the
 * garbage collector does), which may add entries, and none is ever removed. */
static PyObject *
packed_columns(const Accumulator *self, const int *parts, Py_ssize_t width)
{
    Py_ssize_t count = self->used;
    PyObject *columns = PyTuple_New(width);
    Place *places = columns == NULL || parts[0] == ID ? NULL : places_in_order(self, count);
    if (places == NULL && parts[0] != ID)
        Py_CLEAR(columns);
    for (Py_ssize_t n = 0; columns != NULL && n < width; n++) {
        PyObject *column = parts[n] == ID      ? id_list(self, count)
                           : parts[n] <= VALUE ? text_column(self, places, count, parts[n])
                                               : number_column(self, places, count, parts[n]);
        if (column == NULL)
            Py_CLEAR(columns);
        else
            PyTuple_SET_ITEM(columns, n, column);
    }
    PyMem_Free(places);
    return columns;
}

#define COLUMNS(...) \
    static const int parts[] = {__VA_ARGS__}; \
    return packed_columns(self, parts, sizeof(parts) / sizeof(parts[0]))

static Py_ssize_t
length(Accumulator *self)
{
    return self->used;
}

static PyObject *
construct(PyTypeObject *type, PyObject *arguments, PyObject *named)
{
    PyObject *json_of = NULL;
    static char *keywords[] = {"json_of", NULL};
    if (!PyArg_ParseTupleAndKeywords(arguments, named, "|O", keywords, &json_of))
        return NULL;
    Accumulator *self = (Accumulator *)type->tp_alloc(type, 0);
    if (self != NULL)
        self->json_of = Py_XNewRef(json_of);
    return (PyObject *)self;
}

static void
dealloc(Accumulator *self)
{
    for (Py_ssize_t n = 0; n < self->used; n++) {
        Py_CLEAR(self->entries[n].text);
        Py_CLEAR(self->entries[n].other);
        Py_CLEAR(self->entries[n].value);
    }
    PyMem_Free(self->entries);
    PyMem_Free(self->slots);
    Py_CLEAR(self->json_of);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

/* --- ids --------------------------------------------------------------------------------------------------- */

static PyObject *empty_text; /* "" */

int
accumulators_init(void)
{
    return (empty_text = PyUnicode_New(0, 0)) == NULL ? -1 : 0;
}

uint64_t
id_slot_hash(PyObject *id)
{
    return hash_of(id, empty_text);
}

#define FETCH(address) __builtin_prefetch((const char *)(address))

void
prefetch_id(const Accumulator *ids, uint64_t hash, int step, const Accumulator *pairs, const Accumulator *properties)
{
    if (ids->room == 0)
        return;
    const int32_t *slot = &ids->slots[hash & ids->mask];
    if (step == 0) {
        FETCH(slot);
        return;
    }
    if (*slot == 0)
        return;
    const Entry *entry = &ids->entries[*slot - 1];
    int paired = pairs != NULL && step > 1 && entry->paired > 0 && entry->paired <= pairs->used;
    int updated = properties != NULL && step > 1 && entry->updated > 0 && entry->updated <= properties->used;
    if (step == 1) {
        FETCH(entry);
        FETCH(&entry->updated);
    }
    else if (step == 2) {
        FETCH(entry->text);
        FETCH((const char *)entry->text + 64);
        if (paired) {
            FETCH(&pairs->entries[entry->paired - 1]);
            FETCH(&pairs->entries[entry->paired - 1].updated);
        }
        if (updated) {
            FETCH(&properties->entries[entry->updated - 1]);
            FETCH(&properties->entries[entry->updated - 1].updated);
        }
    }
    else if (paired) {
        FETCH(pairs->entries[entry->paired - 1].text);
        FETCH((const char *)pairs->entries[entry->paired - 1].text + 64);
    }
}

/* Numbers are the first time, events, the lowest position, the last time; the kind is ADDED, and IS_USER where the id is
 * a user's. */
Entry *
accumulate_id(Accumulator *self, PyObject *id, int64_t time, int user, int64_t position)
{
    Entry *entry = entry_of(self, 0, id, empty_text);
    if (entry == NULL)
        return NULL;
    int64_t *of = entry->numbers;
    if (entry->kind == 0) {
        self->bytes += PyUnicode_GET_LENGTH(id);
        of[0] = of[3] = time, of[2] = position;
    }
    if (time < of[0])
        of[0] = time;
    if (time > of[3])
        of[3] = time;
    if (position < of[2])
        of[2] = position;
    of[1]++;
    entry->kind |= user ? ADDED | IS_USER : ADDED;
    return entry;
}

/* add_id(id, time, user, position) */
static PyObject *
add_id(Accumulator *self, PyObject *const *arguments, Py_ssize_t count)
{
    int64_t time, position;
    if (count != 4)
        return PyErr_Format(PyExc_TypeError, "four arguments were expected");
    int user = PyObject_IsTrue(arguments[2]);
    if (user < 0 || number_of(arguments[1], &time) < 0 || number_of(arguments[3], &position) < 0 ||
        accumulate_id(self, arguments[0], time, user, position) == NULL)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
id_columns(Accumulator *self, PyObject *Py_UNUSED(ignored))
{
    COLUMNS(ID, NUMBER, NUMBER + 1, NUMBER + 2, USER, NUMBER + 3);
}

/* --- pairs ----------------------------------------------------------------------------------------------- */

/* Numbers are the first and last time, events, the position of the first. */
int
accumulate_pair(Accumulator *self, int32_t *guess, PyObject *anonymous, PyObject *user, int64_t kind, int64_t first,
                int64_t last, int64_t position)
{
    Entry *pair = entry_of(self, guess == NULL ? 0 : *guess, anonymous, user);
    if (pair == NULL)
        return -1;
    if (guess != NULL)
        *guess = (int32_t)(pair - self->entries) + 1;
    int64_t *of = pair->numbers;
    if (pair->kind == 0) {
        self->bytes += PyUnicode_GET_LENGTH(anonymous) + PyUnicode_GET_LENGTH(user);
        of[0] = first, of[1] = last, of[3] = position;
    }
    else if (first < of[0] || (first == of[0] && position < of[3]))
        of[0] = first, of[3] = position;
    if (last > of[1])
        of[1] = last;
    of[2]++;
    pair->kind |= (int32_t)kind;
    return 0;
}

/* add_pair(anonymous, user, kind, time or None, position) */
static PyObject *
add_pair(Accumulator *self, PyObject *const *arguments, Py_ssize_t count)
{
    int64_t kind, position, first = NEVER, last = -NEVER;
    if (count != 5)
        return PyErr_Format(PyExc_TypeError, "five arguments were expected");
    if (number_of(arguments[2], &kind) < 0 || number_of(arguments[4], &position) < 0)
        return NULL;
    if (kind <= 0 || kind > INT32_MAX)
        return PyErr_Format(PyExc_ValueError, "a kind is one of 31 bits");
    if (arguments[3] != Py_None) {
        if (number_of(arguments[3], &first) < 0)
            return NULL;
        last = first;
    }
    if (accumulate_pair(self, NULL, arguments[0], arguments[1], kind, first, last, position) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
pair_columns(Accumulator *self, PyObject *Py_UNUSED(ignored))
{
    COLUMNS(TEXT, OTHER, KIND, NUMBER, NUMBER + 1, NUMBER + 2, NUMBER + 3);
}

/* --- properties ------------------------------------------------------------------------------------------ */

static PyObject *
property_columns(Accumulator *self, PyObject *Py_UNUSED(ignored))
{
    COLUMNS(TEXT, OTHER, KIND, NUMBER, NUMBER + 1, NUMBER + 2, VALUE);
}

/* --- the types --------------------------------------------------------------------------------------------- */

#define METHOD(name) (PyCFunction)(void (*)(void))name

static PyMethodDef id_methods[] = {
    {"add_id", METHOD(add_id), METH_FASTCALL, NULL},
    {"columns", (PyCFunction)id_columns, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyMethodDef pair_methods[] = {
    {"add_pair", METHOD(add_pair), METH_FASTCALL, NULL},
    {"columns", (PyCFunction)pair_columns, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyMethodDef property_methods[] = {
    {"set", METHOD(set_properties), METH_FASTCALL, NULL},
    {"set_once", METHOD(set_properties_once), METH_FASTCALL, NULL},
    {"columns", (PyCFunction)property_columns, METH_NOARGS, NULL},
    {"rows", (PyCFunction)rows, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyMemberDef counts[] = {
    {"bytes", T_PYSSIZET, offsetof(Accumulator, bytes), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};
static PySequenceMethods sizes = {.sq_length = (lenfunc)length};

#define ACCUMULATOR_TYPE(name, its_methods) \
    PyTypeObject name##_Type = { \
        PyVarObject_HEAD_INIT(NULL, 0) \
        .tp_name = "pipeline.native._native." #name, \
        .tp_basicsize = sizeof(Accumulator), \
        .tp_flags = Py_TPFLAGS_DEFAULT, \
        .tp_new = construct, \
        .tp_dealloc = (destructor)dealloc, \
        .tp_methods = its_methods, \
        .tp_members = counts, \
        .tp_as_sequence = &sizes, \
    }

ACCUMULATOR_TYPE(IdAccumulator, id_methods);
ACCUMULATOR_TYPE(PairAccumulator, pair_methods);
ACCUMULATOR_TYPE(PropertyAccumulator, property_methods);
