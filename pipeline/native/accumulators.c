/* Accumulators of ids, of pairs of ids and of properties: the same as in `pipeline.identity.accumulators`. */

#include "accumulators.h"
#include <structmember.h>

#define NEVER (INT64_C(1) << 62)
#define SET_ONCE UPDATE_SET_ONCE
#define SET UPDATE_SET
#define ADDED 1
#define IS_USER 2

/* --- a table of entries with two texts each ------------------------------------------------------------ */

int
same_text(PyObject *one, PyObject *other)
{
    if (one == other)
        return 1;
    if (PyUnicode_GET_LENGTH(one) != PyUnicode_GET_LENGTH(other) || PyUnicode_KIND(one) != PyUnicode_KIND(other))
        return 0;
    size_t size = (size_t)PyUnicode_GET_LENGTH(one) * (size_t)PyUnicode_KIND(one);
    return memcmp(PyUnicode_DATA(one), PyUnicode_DATA(other), size) == 0;
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
hash_of(PyObject *one, PyObject *other)
{
    uint64_t hash = ((uint64_t)PyObject_Hash(one) * UINT64_C(0x9E3779B97F4A7C15)) ^ (uint64_t)PyObject_Hash(other);
    return hash ^ (hash >> 29);
}

static int
are_texts(PyObject *one, PyObject *other)
{
    if (PyUnicode_CheckExact(one) && PyUnicode_CheckExact(other))
        return 1;
    PyErr_SetString(PyExc_TypeError, "two str were expected");
    return 0;
}

/* The entry of two texts; a new one has no kind. NULL with an exception. */
static Entry *
entry_of(Accumulator *self, PyObject *one, PyObject *other)
{
    if (!are_texts(one, other))
        return NULL;
    if (self->used == self->room && grow(self) < 0)
        return (Entry *)PyErr_NoMemory();
    uint64_t hash = hash_of(one, other), at = hash & self->mask;
    for (; self->slots[at]; at = (at + 1) & self->mask) {
        Entry *entry = &self->entries[self->slots[at] - 1];
        if (entry->hash == hash && same_text(entry->one, one) && same_text(entry->other, other))
            return entry;
    }
    Entry *entry = &self->entries[self->used++];
    self->slots[at] = (int32_t)self->used;
    *entry = (Entry){.one = Py_NewRef(one), .other = Py_NewRef(other), .hash = hash};
    return entry;
}

/* `entry_of`, which first tries the entry that `guess` numbers: a right guess saves an access to distant memory. */
static Entry *
entry_near(Accumulator *self, int32_t guess, PyObject *one, PyObject *other)
{
    if (guess > 0 && guess <= self->used && PyUnicode_CheckExact(one) && PyUnicode_CheckExact(other)) {
        Entry *entry = &self->entries[guess - 1];
        if (same_text(entry->one, one) && same_text(entry->other, other))
            return entry;
    }
    return entry_of(self, one, other);
}

/* The entry of two texts, NULL where there is none. */
static const Entry *
entry_there(const Accumulator *self, int32_t guess, PyObject *one, PyObject *other)
{
    if (guess > 0 && guess <= self->used) {
        const Entry *entry = &self->entries[guess - 1];
        if (same_text(entry->one, one) && same_text(entry->other, other))
            return entry;
    }
    if (self->room == 0)
        return NULL;
    uint64_t hash = hash_of(one, other), at = hash & self->mask;
    for (; self->slots[at]; at = (at + 1) & self->mask) {
        const Entry *entry = &self->entries[self->slots[at] - 1];
        if (entry->hash == hash && same_text(entry->one, one) && same_text(entry->other, other))
            return entry;
    }
    return NULL;
}

static int
number_of(PyObject *given, int64_t *number)
{
    *number = PyLong_AsLongLong(given);
    return *number == -1 && PyErr_Occurred() ? -1 : 0;
}

/* All entries as tuples. Creating a tuple may run Python code (the garbage collector does), which may add entries. */
static PyObject *
listed(const Accumulator *self, PyObject *tuple_of(const Entry *))
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

/* The two texts, the kind, the numbers, and the value where there is one. */
static PyObject *
tuple_of(const Entry *one)
{
    const int64_t *of = one->numbers;
    if (one->value == NULL)
        return Py_BuildValue("(OOLLLLL)", one->one, one->other, (long long)one->kind, (long long)of[0],
                             (long long)of[1], (long long)of[2], (long long)of[3]);
    PyObject *value = Py_NewRef(one->value);
    PyObject *tuple = Py_BuildValue("(OOLLLLO)", one->one, one->other, (long long)one->kind, (long long)of[0],
                                    (long long)of[1], (long long)of[2], value);
    Py_DECREF(value);
    return tuple;
}

static PyObject *
rows(Accumulator *self, PyObject *Py_UNUSED(nothing))
{
    return listed(self, tuple_of);
}

static Py_ssize_t
length(Accumulator *self)
{
    return self->used;
}

static PyObject *
construct(PyTypeObject *type, PyObject *given, PyObject *words)
{
    PyObject *json_of = NULL;
    static char *known[] = {"json_of", NULL};
    if (!PyArg_ParseTupleAndKeywords(given, words, "|O", known, &json_of))
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
        Py_CLEAR(self->entries[n].one);
        Py_CLEAR(self->entries[n].other);
        Py_CLEAR(self->entries[n].value);
    }
    PyMem_Free(self->entries);
    PyMem_Free(self->slots);
    Py_CLEAR(self->json_of);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

/* --- ids --------------------------------------------------------------------------------------------------- */

static PyObject *nothing; /* "" */

int
accumulators_init(void)
{
    return (nothing = PyUnicode_New(0, 0)) == NULL ? -1 : 0;
}

uint64_t
id_slot_hash(PyObject *id)
{
    return hash_of(id, nothing);
}

#define FETCH(place) __builtin_prefetch((const char *)(place))

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
        FETCH(entry->one);
        FETCH((const char *)entry->one + 64);
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
        FETCH(pairs->entries[entry->paired - 1].one);
        FETCH((const char *)pairs->entries[entry->paired - 1].one + 64);
    }
}

/* Numbers are first, events, place; the kind is ADDED, and IS_USER where the id is a user's. */
Entry *
accumulate_id(Accumulator *self, PyObject *id, int64_t time, int user, int64_t place)
{
    Entry *entry = entry_of(self, id, nothing);
    if (entry == NULL)
        return NULL;
    int64_t *of = entry->numbers;
    if (entry->kind == 0) {
        self->bytes += PyUnicode_GET_LENGTH(id);
        of[0] = time, of[2] = place;
    }
    if (time < of[0])
        of[0] = time;
    if (place < of[2])
        of[2] = place;
    of[1]++;
    entry->kind |= user ? ADDED | IS_USER : ADDED;
    return entry;
}

/* add_id(id, time, user, place) */
static PyObject *
add_id(Accumulator *self, PyObject *const *given, Py_ssize_t count)
{
    int64_t time, place;
    if (count != 4) {
        PyErr_SetString(PyExc_TypeError, "four arguments were expected");
        return NULL;
    }
    int user = PyObject_IsTrue(given[2]);
    if (user < 0 || number_of(given[1], &time) < 0 || number_of(given[3], &place) < 0 ||
        accumulate_id(self, given[0], time, user, place) == NULL)
        return NULL;
    Py_RETURN_NONE;
}

/* The id, first, events, place, whether it is a user's. */
static PyObject *
id_of(const Entry *one)
{
    const int64_t *of = one->numbers;
    return Py_BuildValue("(OLLLO)", one->one, (long long)of[0], (long long)of[1], (long long)of[2],
                         one->kind & IS_USER ? Py_True : Py_False);
}

static PyObject *
id_rows(Accumulator *self, PyObject *Py_UNUSED(none))
{
    return listed(self, id_of);
}

/* --- pairs ----------------------------------------------------------------------------------------------- */

/* Numbers are first, last, events, place. */
int
accumulate_pair(Accumulator *self, int32_t *guess, PyObject *anonymous, PyObject *user, int64_t kind, int64_t first, int64_t last,
          int64_t place)
{
    Entry *pair = entry_near(self, guess == NULL ? 0 : *guess, anonymous, user);
    if (pair == NULL)
        return -1;
    if (guess != NULL)
        *guess = (int32_t)(pair - self->entries) + 1;
    int64_t *of = pair->numbers;
    if (pair->kind == 0) {
        self->bytes += PyUnicode_GET_LENGTH(anonymous) + PyUnicode_GET_LENGTH(user);
        of[0] = first, of[1] = last, of[3] = place;
    }
    else if (first < of[0] || (first == of[0] && place < of[3]))
        of[0] = first, of[3] = place;
    if (last > of[1])
        of[1] = last;
    of[2]++;
    pair->kind |= (int32_t)kind;
    return 0;
}

/* add_pair(anonymous, user, kind, time or None, place) */
static PyObject *
add_pair(Accumulator *self, PyObject *const *given, Py_ssize_t count)
{
    int64_t kind, place, first = NEVER, last = -NEVER;
    if (count != 5) {
        PyErr_SetString(PyExc_TypeError, "five arguments were expected");
        return NULL;
    }
    if (number_of(given[2], &kind) < 0 || number_of(given[4], &place) < 0)
        return NULL;
    if (kind <= 0 || kind > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "a kind is a bit of 31");
        return NULL;
    }
    if (given[3] != Py_None) {
        if (number_of(given[3], &first) < 0)
            return NULL;
        last = first;
    }
    if (accumulate_pair(self, NULL, given[0], given[1], kind, first, last, place) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* --- properties -------------------------------------------------------------------------------------------- */

/* A value as JSON; NULL with an exception. */
static PyObject *
json_of(const Accumulator *self, PyObject *value)
{
    if (self->json_of == NULL) {
        PyErr_SetString(PyExc_TypeError, "this accumulator has no values");
        return NULL;
    }
    PyObject *json = PyObject_CallOneArg(self->json_of, value);
    if (json == NULL || PyBytes_CheckExact(json))
        return json;
    Py_DECREF(json);
    PyErr_SetString(PyExc_TypeError, "bytes were expected");
    return NULL;
}

/* Whether one JSON is greater (1) or less (-1) than another. */
static int
against(PyObject *one, PyObject *other)
{
    Py_ssize_t length = PyBytes_GET_SIZE(one), others = PyBytes_GET_SIZE(other);
    int order = memcmp(PyBytes_AS_STRING(one), PyBytes_AS_STRING(other), (size_t)(length < others ? length : others));
    return order ? (order > 0) - (order < 0) : (length > others) - (length < others);
}

/* How an update compares with the one that is kept: it loses (0), wins (1), or its value decides (2). */
static int
rank(const Entry *entry, int kind, int64_t at, int64_t got)
{
    if (entry == NULL || kind > entry->kind)
        return 1;
    if (kind < entry->kind)
        return 0;
    const int64_t *of = entry->numbers;
    if (at == of[0] && got == of[1])
        return 2;
    int later = at > of[0] || (at == of[0] && got > of[1]);
    return later == (kind == SET);
}

/* Numbers are time, received, latest. */
static int
update(Accumulator *self, int32_t *guess, int kind, PyObject *owner, PyObject *name, PyObject *value, int64_t at, int64_t got)
{
    if (!are_texts(owner, name))
        return -1;
    const Entry *known = entry_there(self, *guess, owner, name);
    int32_t guessed = known == NULL ? 0 : (int32_t)(known - self->entries) + 1;
    PyObject *json = NULL;
    if (rank(known, kind, at, got)) {
        /* Turning a value into JSON runs Python code, which may add updates: everything is looked up again. */
        if ((json = json_of(self, value)) == NULL)
            return -1;
        if (known != NULL)
            known = entry_there(self, guessed, owner, name);
    }
    Entry *entry = known == NULL ? entry_of(self, owner, name) : &self->entries[known - self->entries];
    if (entry == NULL) {
        Py_XDECREF(json);
        return -1;
    }
    *guess = (int32_t)(entry - self->entries) + 1;
    int64_t *of = entry->numbers;
    int wins = json == NULL ? 0 : rank(entry->kind == 0 ? NULL : entry, kind, at, got);
    if (wins == 2)
        wins = against(json, entry->value) == (kind == SET ? 1 : -1);
    if (entry->kind == 0 || at > of[2])
        of[2] = at;
    if (!wins) {
        Py_XDECREF(json);
        return 0;
    }
    PyObject *before = entry->value;
    self->bytes += PyBytes_GET_SIZE(json) - (before == NULL ? 0 : PyBytes_GET_SIZE(before));
    of[0] = at, of[1] = got;
    entry->kind = kind;
    entry->value = json;
    Py_XDECREF(before);
    return 0;
}

int
accumulate_properties(Accumulator *self, int32_t *guess, int kind, PyObject *owner, PyObject *given, int64_t at, int64_t got)
{
    PyObject *values = PyDict_CheckExact(given) ? Py_NewRef(given) : PyObject_CallOneArg((PyObject *)&PyDict_Type, given);
    PyObject *name, *value;
    Py_ssize_t place = 0;
    int failed = values == NULL;
    int32_t near = guess == NULL ? 0 : *guess, first = 0;
    while (!failed && PyDict_Next(values, &place, &name, &value)) {
        Py_INCREF(name); /* turning a value into JSON may remove it from the dict */
        Py_INCREF(value);
        failed = update(self, &near, kind, owner, name, value, at, got) < 0;
        Py_DECREF(name);
        Py_DECREF(value);
        first = first ? first : near;
        near++; /* the entries of one owner are mostly neighbours */
    }
    if (guess != NULL && first)
        *guess = first;
    Py_XDECREF(values);
    return failed ? -1 : 0;
}

/* set(owner, values, at, got), and set_once */
static PyObject *
update_all(Accumulator *self, int kind, PyObject *const *given, Py_ssize_t count)
{
    int64_t at, got;
    if (count != 4) {
        PyErr_SetString(PyExc_TypeError, "four arguments were expected");
        return NULL;
    }
    if (number_of(given[2], &at) < 0 || number_of(given[3], &got) < 0 ||
        accumulate_properties(self, NULL, kind, given[0], given[1], at, got) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
set(Accumulator *self, PyObject *const *given, Py_ssize_t count)
{
    return update_all(self, SET, given, count);
}

static PyObject *
set_once(Accumulator *self, PyObject *const *given, Py_ssize_t count)
{
    return update_all(self, SET_ONCE, given, count);
}

/* --- the types --------------------------------------------------------------------------------------------- */

#define METHOD(name) (PyCFunction)(void (*)(void))name

static PyMethodDef id_methods[] = {
    {"add_id", METHOD(add_id), METH_FASTCALL, NULL},
    {"rows", (PyCFunction)id_rows, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyMethodDef pair_methods[] = {
    {"add_pair", METHOD(add_pair), METH_FASTCALL, NULL},
    {"rows", (PyCFunction)rows, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyMethodDef property_methods[] = {
    {"set", METHOD(set), METH_FASTCALL, NULL},
    {"set_once", METHOD(set_once), METH_FASTCALL, NULL},
    {"rows", (PyCFunction)rows, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyMemberDef counts[] = {
    {"bytes", T_PYSSIZET, offsetof(Accumulator, bytes), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};
static PySequenceMethods sizes = {.sq_length = (lenfunc)length};

#define ACCUMULATOR_TYPE(name, its_methods)                                                                                   \
    PyTypeObject name##_Type = {                                                                                       \
        PyVarObject_HEAD_INIT(NULL, 0)                                                                                 \
        .tp_name = "pipeline.native._native." #name,                                                                   \
        .tp_basicsize = sizeof(Accumulator),                                                                                  \
        .tp_flags = Py_TPFLAGS_DEFAULT,                                                                                \
        .tp_new = construct,                                                                                           \
        .tp_dealloc = (destructor)dealloc,                                                                             \
        .tp_methods = its_methods,                                                                                     \
        .tp_members = counts,                                                                                          \
        .tp_as_sequence = &sizes,                                                                                      \
    }

ACCUMULATOR_TYPE(IdAccumulator, id_methods);
ACCUMULATOR_TYPE(PairAccumulator, pair_methods);
ACCUMULATOR_TYPE(PropertyAccumulator, property_methods);
