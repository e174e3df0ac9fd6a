/* What many rows say of ids, of pairs of them, and of properties, folded as `pipeline.events.folding` folds it. */

#include "folds.h"
#include <structmember.h>

#define NEVER (INT64_C(1) << 62)
#define SET_ONCE FOLD_SET_ONCE
#define SET FOLD_SET
#define SEEN 1
#define USERS 2

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
grow(Fold *self)
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

/* The entry of two texts; a new one has no kind. NULL with an exception. */
static Entry *
entry_of(Fold *self, PyObject *one, PyObject *other)
{
    if (!PyUnicode_CheckExact(one) || !PyUnicode_CheckExact(other)) {
        PyErr_SetString(PyExc_TypeError, "two str were expected");
        return NULL;
    }
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

/* The same, looked for first where it may stand: every look that a guess spares is one into memory far away. */
static Entry *
entry_near(Fold *self, int32_t guess, PyObject *one, PyObject *other)
{
    if (guess > 0 && guess <= self->used && PyUnicode_CheckExact(one) && PyUnicode_CheckExact(other)) {
        Entry *entry = &self->entries[guess - 1];
        if (same_text(entry->one, one) && same_text(entry->other, other))
            return entry;
    }
    return entry_of(self, one, other);
}

/* Take the newest entry out again. */
static void
forget_last(Fold *self)
{
    Entry *last = &self->entries[self->used - 1];
    uint64_t at = last->hash & self->mask;
    while (self->slots[at] != (int32_t)self->used)
        at = (at + 1) & self->mask;
    self->slots[at] = 0;
    self->used--;
    Py_CLEAR(last->one);
    Py_CLEAR(last->other);
}

static int
number_of(PyObject *given, int64_t *number)
{
    *number = PyLong_AsLongLong(given);
    return *number == -1 && PyErr_Occurred() ? -1 : 0;
}

/* All entries as tuples: the two texts, the kind, the numbers, and the value where there is one. */
static PyObject *
told(Fold *self, PyObject *Py_UNUSED(nothing))
{
    PyObject *list = PyList_New(self->used);
    for (Py_ssize_t n = 0; list != NULL && n < self->used; n++) {
        const Entry *one = &self->entries[n];
        const int64_t *of = one->numbers;
        PyObject *tuple =
            one->value != NULL
                ? Py_BuildValue("(OOLLLLO)", one->one, one->other, (long long)one->kind, (long long)of[0],
                                (long long)of[1], (long long)of[2], one->value)
                : Py_BuildValue("(OOLLLLL)", one->one, one->other, (long long)one->kind, (long long)of[0],
                                (long long)of[1], (long long)of[2], (long long)of[3]);
        if (tuple == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, n, tuple);
    }
    return list;
}

static Py_ssize_t
length(Fold *self)
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
    Fold *self = (Fold *)type->tp_alloc(type, 0);
    if (self != NULL)
        self->json_of = Py_XNewRef(json_of);
    return (PyObject *)self;
}

static void
dealloc(Fold *self)
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
folds_init(void)
{
    return (nothing = PyUnicode_New(0, 0)) == NULL ? -1 : 0;
}

uint64_t
fold_hash(PyObject *id)
{
    return hash_of(id, nothing);
}

#define FETCH(place) __builtin_prefetch((const char *)(place))

void
fold_fetch(const Fold *ids, uint64_t hash, int step, const Fold *pairs, const Fold *properties)
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
    int paired = pairs != NULL && step > 1 && entry->pair > 0 && entry->pair <= pairs->used;
    int said = properties != NULL && step > 1 && entry->said > 0 && entry->said <= properties->used;
    if (step == 1) {
        FETCH(entry);
        FETCH(&entry->said);
    }
    else if (step == 2) {
        FETCH(entry->one);
        FETCH((const char *)entry->one + 64);
        if (paired) {
            FETCH(&pairs->entries[entry->pair - 1]);
            FETCH(&pairs->entries[entry->pair - 1].said);
        }
        if (said) {
            FETCH(&properties->entries[entry->said - 1]);
            FETCH(&properties->entries[entry->said - 1].said);
        }
    }
    else if (paired) {
        FETCH(pairs->entries[entry->pair - 1].one);
        FETCH((const char *)pairs->entries[entry->pair - 1].one + 64);
    }
}

/* Numbers are first, events, place; the kind is SEEN, and USERS where the id is a user's. */
Entry *
fold_see(Fold *self, PyObject *id, int64_t time, int user, int64_t place)
{
    Entry *seen = entry_of(self, id, nothing);
    if (seen == NULL)
        return NULL;
    int64_t *of = seen->numbers;
    if (seen->kind == 0) {
        self->bytes += PyUnicode_GET_LENGTH(id);
        of[0] = time, of[2] = place;
    }
    if (time < of[0])
        of[0] = time;
    if (place < of[2])
        of[2] = place;
    of[1]++;
    seen->kind |= user ? SEEN | USERS : SEEN;
    return seen;
}

/* see(id, time, user, place) */
static PyObject *
see(Fold *self, PyObject *const *given, Py_ssize_t count)
{
    int64_t time, place;
    if (count != 4) {
        PyErr_SetString(PyExc_TypeError, "four arguments were expected");
        return NULL;
    }
    int user = PyObject_IsTrue(given[2]);
    if (user < 0 || number_of(given[1], &time) < 0 || number_of(given[3], &place) < 0 ||
        fold_see(self, given[0], time, user, place) == NULL)
        return NULL;
    Py_RETURN_NONE;
}

/* All ids as tuples: the id, first, events, place, whether it is a user's. */
static PyObject *
ids_told(Fold *self, PyObject *Py_UNUSED(none))
{
    PyObject *list = PyList_New(self->used);
    for (Py_ssize_t n = 0; list != NULL && n < self->used; n++) {
        const Entry *one = &self->entries[n];
        const int64_t *of = one->numbers;
        PyObject *tuple = Py_BuildValue("(OLLLO)", one->one, (long long)of[0], (long long)of[1], (long long)of[2],
                                        one->kind & USERS ? Py_True : Py_False);
        if (tuple == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, n, tuple);
    }
    return list;
}

/* --- pairs ----------------------------------------------------------------------------------------------- */

/* Numbers are first, last, events, place. */
int
fold_hear(Fold *self, int32_t *guess, PyObject *anonymous, PyObject *user, int64_t kind, int64_t first, int64_t last,
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

/* hear(anonymous, user, kind, time or None, place) */
static PyObject *
hear(Fold *self, PyObject *const *given, Py_ssize_t count)
{
    int64_t kind, place, first = NEVER, last = -NEVER;
    if (count != 5) {
        PyErr_SetString(PyExc_TypeError, "five arguments were expected");
        return NULL;
    }
    if (number_of(given[2], &kind) < 0 || number_of(given[4], &place) < 0)
        return NULL;
    if (given[3] != Py_None) {
        if (number_of(given[3], &first) < 0)
            return NULL;
        last = first;
    }
    if (fold_hear(self, NULL, given[0], given[1], kind, first, last, place) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* --- properties -------------------------------------------------------------------------------------------- */

/* Whether `value`, as JSON, is greater (1) or less (-1) than the one that is held; 2 with an exception. */
static int
against(Fold *self, PyObject *value, PyObject *held, PyObject **json)
{
    *json = PyObject_CallOneArg(self->json_of, value);
    if (*json == NULL)
        return 2;
    if (!PyBytes_CheckExact(*json)) {
        Py_CLEAR(*json);
        PyErr_SetString(PyExc_TypeError, "bytes were expected");
        return 2;
    }
    if (held == NULL)
        return 1;
    Py_ssize_t one = PyBytes_GET_SIZE(*json), other = PyBytes_GET_SIZE(held);
    int order = memcmp(PyBytes_AS_STRING(*json), PyBytes_AS_STRING(held), (size_t)(one < other ? one : other));
    return order ? (order > 0) - (order < 0) : (one > other) - (one < other);
}

/* Numbers are time, received, latest. */
static int
say(Fold *self, int32_t *guess, int kind, PyObject *owner, PyObject *name, PyObject *value, int64_t at, int64_t got)
{
    Entry *said = entry_near(self, *guess, owner, name);
    if (said == NULL)
        return -1;
    *guess = (int32_t)(said - self->entries) + 1;
    int64_t *of = said->numbers;
    if (said->kind == 0)
        of[2] = at;
    int wins, same = said->kind != 0 && at == of[0] && got == of[1];
    if (kind == SET)
        wins = said->kind != SET || at > of[0] || (at == of[0] && got > of[1]);
    else
        wins = said->kind == 0 || (said->kind == SET_ONCE && (at < of[0] || (at == of[0] && got < of[1])));
    if (at > of[2])
        of[2] = at;
    if (!wins && !(same && said->kind == kind))
        return 0;
    PyObject *json;
    Py_ssize_t place = said - self->entries;
    int order = against(self, value, said->value, &json);
    if (order == 2) {
        if (self->entries[place].value == NULL)
            forget_last(self);
        return -1;
    }
    said = &self->entries[place];
    if (wins || (kind == SET ? order > 0 : order < 0)) {
        self->bytes += PyBytes_GET_SIZE(json) - (said->value == NULL ? 0 : PyBytes_GET_SIZE(said->value));
        of = said->numbers;
        of[0] = at, of[1] = got;
        said->kind = kind;
        Py_XSETREF(said->value, json);
    }
    else
        Py_DECREF(json);
    return 0;
}

int
fold_say(Fold *self, int32_t *guess, int kind, PyObject *owner, PyObject *given, int64_t at, int64_t got)
{
    PyObject *values = PyDict_CheckExact(given) ? Py_NewRef(given) : PyObject_CallOneArg((PyObject *)&PyDict_Type, given);
    PyObject *name, *value;
    Py_ssize_t place = 0;
    int failed = values == NULL;
    int32_t near = guess == NULL ? 0 : *guess, first = 0;
    while (!failed && PyDict_Next(values, &place, &name, &value)) {
        failed = say(self, &near, kind, owner, name, value, at, got) < 0;
        first = first ? first : near;
        near++; /* those of one owner mostly stand in a row */
    }
    if (guess != NULL && first)
        *guess = first;
    Py_XDECREF(values);
    return failed ? -1 : 0;
}

/* set(owner, values, at, got), and set_once */
static PyObject *
say_all(Fold *self, int kind, PyObject *const *given, Py_ssize_t count)
{
    int64_t at, got;
    if (count != 4) {
        PyErr_SetString(PyExc_TypeError, "four arguments were expected");
        return NULL;
    }
    if (number_of(given[2], &at) < 0 || number_of(given[3], &got) < 0 ||
        fold_say(self, NULL, kind, given[0], given[1], at, got) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
set(Fold *self, PyObject *const *given, Py_ssize_t count)
{
    return say_all(self, SET, given, count);
}

static PyObject *
set_once(Fold *self, PyObject *const *given, Py_ssize_t count)
{
    return say_all(self, SET_ONCE, given, count);
}

/* --- the types --------------------------------------------------------------------------------------------- */

#define METHOD(name) (PyCFunction)(void (*)(void))name

static PyMethodDef id_methods[] = {
    {"see", METHOD(see), METH_FASTCALL, NULL},
    {"told", (PyCFunction)ids_told, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyMethodDef pair_methods[] = {
    {"hear", METHOD(hear), METH_FASTCALL, NULL},
    {"told", (PyCFunction)told, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyMethodDef property_methods[] = {
    {"set", METHOD(set), METH_FASTCALL, NULL},
    {"set_once", METHOD(set_once), METH_FASTCALL, NULL},
    {"told", (PyCFunction)told, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyMemberDef counts[] = {
    {"bytes", T_PYSSIZET, offsetof(Fold, bytes), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};
static PySequenceMethods sizes = {.sq_length = (lenfunc)length};

#define FOLD_TYPE(name, its_methods)                                                                                   \
    PyTypeObject name##_Type = {                                                                                       \
        PyVarObject_HEAD_INIT(NULL, 0)                                                                                 \
        .tp_name = "pipeline.native._native." #name,                                                                   \
        .tp_basicsize = sizeof(Fold),                                                                                  \
        .tp_flags = Py_TPFLAGS_DEFAULT,                                                                                \
        .tp_new = construct,                                                                                           \
        .tp_dealloc = (destructor)dealloc,                                                                             \
        .tp_methods = its_methods,                                                                                     \
        .tp_members = counts,                                                                                          \
        .tp_as_sequence = &sizes,                                                                                      \
    }

FOLD_TYPE(Ids, id_methods);
FOLD_TYPE(Pairs, pair_methods);
FOLD_TYPE(Properties, property_methods);
