/* What a plan keeps of an event that is plainly good, as `pipeline.transform.observer` keeps it. */

#include "accumulators.h"
#include "native.h"
#include <structmember.h>

#define OVERWRITES 1
#define GROUPS 2
#define NOTE 4

/* Columns of whole numbers; the last two have an entry where a row has both a receive time and a reading of the wall clock. */
enum { TIMES, RECEIVED, WALLS, WALLS_RECEIVED, COLUMNS };

typedef struct {
    int64_t *numbers;
    Py_ssize_t used, room;
} Column;

/* An event whose id and note wait to be aggregated, while the memory for that is fetched. */
typedef struct {
    PyObject *id, *note, *received;
    int64_t row, time;
    uint64_t hash;
} Waiting;

typedef struct {
    PyObject_HEAD
    PyObject *names;
    Column columns[COLUMNS];
    Accumulator *ids;        /* NULL: nothing that rows state beside their events is aggregated */
    Accumulator *pairs;      /* NULL: the caller aggregates notes */
    Accumulator *properties; /* NULL: nobody wants properties of persons */
    int64_t place, absent;
    Waiting waiting[PREFETCH_STEPS]; /* the oldest is aggregated when the next comes; `next` is its place */
    int next;
    vectorcallfunc call;
} Observer;

static PyObject *name_set, *name_groups;

int
observer_init(void)
{
    name_set = PyUnicode_InternFromString("$set");
    name_groups = PyUnicode_InternFromString("$groups");
    return name_set == NULL || name_groups == NULL ? -1 : 0;
}

/* --- attributes of UnvalidatedEvent and Note, by where they lie in the object --------------------------------------------- */

enum { EVENT, RECEIVED_AT, WALL, NOTED };
enum { ANONYMOUS, USER, SETS, SETS_ONCE };
#define MOST_SLOTS 4

typedef struct {
    PyTypeObject *type; /* the last one that was asked */
    const char *names[MOST_SLOTS];
    PyObject *texts[MOST_SLOTS];
    Py_ssize_t offsets[MOST_SLOTS]; /* 0: not a slot */
} Slots;

static Slots of_draft = {.names = {"event", "received", "wall", "note"}};
static Slots of_note = {.names = {"anonymous", "user", "set", "set_once"}};

static int
learn(Slots *slots, PyTypeObject *type)
{
    Py_ssize_t offsets[MOST_SLOTS]; /* a type may look up its attributes by Python that comes here, too */
    for (int n = 0; n < MOST_SLOTS; n++) {
        if (slots->texts[n] == NULL && (slots->texts[n] = PyUnicode_InternFromString(slots->names[n])) == NULL)
            return -1;
        PyObject *found = PyObject_GetAttr((PyObject *)type, slots->texts[n]);
        if (found == NULL)
            PyErr_Clear();
        const PyMemberDescrObject *member = (const PyMemberDescrObject *)found;
        offsets[n] = found != NULL && Py_IS_TYPE(found, &PyMemberDescr_Type) &&
                             member->d_member->type == T_OBJECT_EX && PyType_IsSubtype(type, PyDescr_TYPE(found))
                         ? member->d_member->offset
                         : 0;
        Py_XDECREF(found);
    }
    memcpy(slots->offsets, offsets, sizeof(offsets));
    PyTypeObject *before = slots->type;
    slots->type = (PyTypeObject *)Py_NewRef(type);
    Py_XDECREF(before);
    return 0;
}

/* A new reference to what an object has there; NULL with an exception. */
static PyObject *
slot(Slots *slots, PyObject *of, int number)
{
    if (!Py_IS_TYPE(of, slots->type) && learn(slots, Py_TYPE(of)) < 0)
        return NULL;
    if (slots->offsets[number]) {
        PyObject *value = *(PyObject **)((char *)of + slots->offsets[number]);
        if (value != NULL)
            return Py_NewRef(value);
    }
    return PyObject_GetAttr(of, slots->texts[number]);
}

/* --- what is kept ------------------------------------------------------------------------------------------------ */

static int
column_add(Column *column, int64_t number)
{
    if (column->used == column->room) {
        Py_ssize_t room = column->room ? column->room * 2 : 1024;
        int64_t *numbers = PyMem_Realloc(column->numbers, (size_t)room * sizeof(int64_t));
        if (numbers == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        column->numbers = numbers;
        column->room = room;
    }
    column->numbers[column->used++] = number;
    return 0;
}

static int
keep(Observer *self, PyObject *event, int64_t time, PyObject *received, PyObject *wall)
{
    int64_t got = 0, clock = 0;
    if (received != Py_None && (got = PyLong_AsLongLong(received)) == -1 && PyErr_Occurred())
        return -1;
    if (wall != Py_None && (clock = PyLong_AsLongLong(wall)) == -1 && PyErr_Occurred())
        return -1;
    Column *columns = self->columns;
    if (PyList_Append(self->names, event) < 0 || column_add(&columns[TIMES], time) < 0 ||
        column_add(&columns[RECEIVED], got) < 0)
        return -1;
    if (wall == Py_None || got == 0)
        return 0;
    return column_add(&columns[WALLS], clock) < 0 || column_add(&columns[WALLS_RECEIVED], got) < 0 ? -1 : 0;
}

static int
has(PyObject *properties, PyObject *name)
{
    if (Members_Check(properties))
        return members_find((Members *)properties, name) != NULL;
    return PyDict_Check(properties) ? PyDict_Contains(properties, name) : PySequence_Contains(properties, name);
}

static int
hear_properties(Observer *self, int32_t *guess, int kind, PyObject *note, int which, PyObject *owner, int64_t at,
                int64_t got)
{
    PyObject *values = slot(&of_note, note, which);
    int failed =
        values == NULL || (values != Py_None && accumulate_properties(self->properties, guess, kind, owner, values, at, got) < 0);
    Py_XDECREF(values);
    return failed ? -1 : 0;
}

/* Texts of the accumulator of ids are handed on, so that what is found by them is known by its address. Python that is run here
 * may let the accumulator grow: its entry is looked up by its number each time. */
static int
aggregate_note(Observer *self, Py_ssize_t number, PyObject *note, PyObject *user, int64_t place, int64_t time,
          PyObject *received)
{
    PyObject *owner = Py_NewRef(self->ids->entries[number].one), *anonymous = slot(&of_note, note, ANONYMOUS);
    int failed = anonymous == NULL;
    if (!failed && anonymous != Py_None && user != Py_None) {
        PyObject *whose = PyUnicode_CheckExact(user) && same_text(user, owner) ? owner : user;
        failed = accumulate_pair(self->pairs, &self->ids->entries[number].paired, anonymous, whose, 1, time, time, place) < 0;
    }
    Py_XDECREF(anonymous);
    int64_t got = self->absent;
    if (!failed && self->properties != NULL) {
        if (received != Py_None)
            failed = (got = PyLong_AsLongLong(received)) == -1 && PyErr_Occurred();
        int32_t guess = self->ids->entries[number].updated;
        failed = failed || hear_properties(self, &guess, UPDATE_SET, note, SETS, owner, time, got) < 0 ||
                 hear_properties(self, &guess, UPDATE_SET_ONCE, note, SETS_ONCE, owner, time, got) < 0;
        self->ids->entries[number].updated = guess;
    }
    Py_DECREF(owner);
    return failed ? -1 : 0;
}

/* Hear the one that waits in a place, if any does. */
static int
aggregate(Observer *self, int place)
{
    Waiting one = self->waiting[place];
    if (one.id == NULL)
        return 0;
    self->waiting[place].id = NULL;
    PyObject *user = one.note == Py_None ? Py_NewRef(Py_None) : slot(&of_note, one.note, USER);
    int failed = user == NULL;
    if (!failed) {
        int users = PyUnicode_CheckExact(user) && PyUnicode_CheckExact(one.id) && same_text(user, one.id);
        int64_t place;
        if (__builtin_add_overflow(self->place, one.row, &place)) {
            PyErr_SetString(PyExc_OverflowError, "a place is of 64 bits");
            failed = 1;
        }
        const Entry *entry = failed ? NULL : accumulate_id(self->ids, one.id, one.time, users, place);
        failed = entry == NULL || (one.note != Py_None && self->pairs != NULL &&
                                  aggregate_note(self, entry - self->ids->entries, one.note, user, place, one.time,
                                            one.received) < 0);
    }
    Py_XDECREF(user);
    Py_DECREF(one.id);
    Py_DECREF(one.note);
    Py_DECREF(one.received);
    return failed ? -1 : 0;
}

/* Hear the oldest that waits, and let another wait. */
static int
wait_or_hear(Observer *self, PyObject *id, PyObject *note, PyObject *received, int64_t row, int64_t time)
{
    if (!PyUnicode_CheckExact(id)) {
        PyErr_SetString(PyExc_TypeError, "an id is a str");
        return -1;
    }
    if (aggregate(self, self->next) < 0)
        return -1;
    if (self->waiting[self->next].id != NULL) {
        PyErr_SetString(PyExc_RuntimeError, "the observer was called by what it called");
        return -1;
    }
    self->waiting[self->next] =
        (Waiting){Py_NewRef(id), Py_NewRef(note), Py_NewRef(received), row, time, id_slot_hash(id)};
    for (int step = 0, place = self->next; step < PREFETCH_STEPS; step++) {
        if (self->waiting[place].id != NULL)
            prefetch_id(self->ids, self->waiting[place].hash, step, self->pairs, self->properties);
        place = place ? place - 1 : PREFETCH_STEPS - 1;
    }
    self->next = (self->next + 1) % PREFETCH_STEPS;
    return 0;
}

/* observer(row, draft, time, distinct_id, properties): what is left to do, as bits */
static PyObject *
observe(PyObject *callable, PyObject *const *given, size_t count, PyObject *Py_UNUSED(words))
{
    Observer *self = (Observer *)callable;
    if (PyVectorcall_NARGS(count) != 5) {
        PyErr_SetString(PyExc_TypeError, "five arguments were expected");
        return NULL;
    }
    PyObject *draft = given[1], *id = given[3], *properties = given[4];
    int64_t row = PyLong_AsLongLong(given[0]);
    if (row == -1 && PyErr_Occurred())
        return NULL;
    int64_t time = PyLong_AsLongLong(given[2]);
    if (time == -1 && PyErr_Occurred())
        return NULL;
    int overwrites = has(properties, name_set), groups = has(properties, name_groups);
    if (overwrites < 0 || groups < 0)
        return NULL;
    long left = (overwrites ? OVERWRITES : 0) | (groups ? GROUPS : 0);
    PyObject *event = slot(&of_draft, draft, EVENT), *received = NULL, *wall = NULL, *note = NULL;
    int failed = event == NULL || (received = slot(&of_draft, draft, RECEIVED_AT)) == NULL ||
                 (wall = slot(&of_draft, draft, WALL)) == NULL || (note = slot(&of_draft, draft, NOTED)) == NULL ||
                 keep(self, event, time, received, wall) < 0 ||
                 (self->ids != NULL && wait_or_hear(self, id, note, received, row, time) < 0);
    if (note != Py_None && self->pairs == NULL)
        left |= NOTE;
    Py_XDECREF(event);
    Py_XDECREF(received);
    Py_XDECREF(wall);
    Py_XDECREF(note);
    return failed ? NULL : PyLong_FromLong(left);
}

/* add(event, time, received, wall): the same of an event whose id and note are aggregated elsewhere. */
static PyObject *
add(Observer *self, PyObject *const *given, Py_ssize_t count)
{
    if (count != 4) {
        PyErr_SetString(PyExc_TypeError, "four arguments were expected");
        return NULL;
    }
    int64_t time = PyLong_AsLongLong(given[1]);
    if ((time == -1 && PyErr_Occurred()) || keep(self, given[0], time, given[2], given[3]) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* cut(events, walls): take all after so many out again. */
static PyObject *
cut(Observer *self, PyObject *given)
{
    Py_ssize_t events, walls;
    if (!PyArg_ParseTuple(given, "nn", &events, &walls))
        return NULL;
    Column *columns = self->columns;
    if (events < 0 || walls < 0 || events > columns[TIMES].used || walls > columns[WALLS].used) {
        PyErr_SetString(PyExc_ValueError, "there are not so many");
        return NULL;
    }
    if (PyList_SetSlice(self->names, events, PY_SSIZE_T_MAX, NULL) < 0)
        return NULL;
    columns[TIMES].used = columns[RECEIVED].used = events;
    columns[WALLS].used = columns[WALLS_RECEIVED].used = walls;
    Py_RETURN_NONE;
}

/* columns(): times, received, walls and the receive times beside those, as bytes of int64. All ids are aggregated first. */
static PyObject *
columns(Observer *self, PyObject *Py_UNUSED(none))
{
    for (int n = 0; n < PREFETCH_STEPS; n++)
        if (aggregate(self, (self->next + n) % PREFETCH_STEPS) < 0)
            return NULL;
    PyObject *all = PyTuple_New(COLUMNS);
    for (int n = 0; all != NULL && n < COLUMNS; n++) {
        const Column *one = &self->columns[n];
        PyObject *bytes = PyBytes_FromStringAndSize((const char *)one->numbers, one->used * (Py_ssize_t)sizeof(int64_t));
        if (bytes == NULL)
            Py_CLEAR(all);
        else
            PyTuple_SET_ITEM(all, n, bytes);
    }
    return all;
}

static PyObject *
walls(Observer *self, void *Py_UNUSED(nothing))
{
    return PyLong_FromSsize_t(self->columns[WALLS].used);
}

static PyObject *
construct(PyTypeObject *type, PyObject *given, PyObject *words)
{
    PyObject *names, *ids, *pairs, *properties;
    long long place, absent;
    static char *known[] = {"names", "ids", "pairs", "properties", "place", "absent", NULL};
    if (!PyArg_ParseTupleAndKeywords(given, words, "O!OOOLL", known, &PyList_Type, &names, &ids, &pairs, &properties,
                                     &place, &absent))
        return NULL;
    if ((ids != Py_None && !Py_IS_TYPE(ids, &IdAccumulator_Type)) || (pairs != Py_None && !Py_IS_TYPE(pairs, &PairAccumulator_Type)) ||
        (properties != Py_None && !Py_IS_TYPE(properties, &PropertyAccumulator_Type)) || (ids == Py_None && pairs != Py_None)) {
        PyErr_SetString(PyExc_TypeError, "a list and accumulators of ids, pairs and properties were expected");
        return NULL;
    }
    Observer *self = (Observer *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->call = observe;
    self->names = Py_NewRef(names);
    self->ids = ids == Py_None ? NULL : (Accumulator *)Py_NewRef(ids);
    self->pairs = pairs == Py_None ? NULL : (Accumulator *)Py_NewRef(pairs);
    self->properties = properties == Py_None ? NULL : (Accumulator *)Py_NewRef(properties);
    self->place = place;
    self->absent = absent;
    return (PyObject *)self;
}

static void
dealloc(Observer *self)
{
    for (int n = 0; n < COLUMNS; n++)
        PyMem_Free(self->columns[n].numbers);
    for (int n = 0; n < PREFETCH_STEPS; n++)
        if (self->waiting[n].id != NULL) {
            Py_CLEAR(self->waiting[n].id);
            Py_CLEAR(self->waiting[n].note);
            Py_CLEAR(self->waiting[n].received);
        }
    Py_CLEAR(self->names);
    Py_CLEAR(self->ids);
    Py_CLEAR(self->pairs);
    Py_CLEAR(self->properties);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMethodDef methods[] = {
    {"add", (PyCFunction)(void (*)(void))add, METH_FASTCALL, NULL},
    {"cut", (PyCFunction)cut, METH_VARARGS, NULL},
    {"columns", (PyCFunction)columns, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef getters[] = {
    {"walls", (getter)walls, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject Observer_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "pipeline.native._native.Observer",
    .tp_basicsize = sizeof(Observer),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Observer, call),
    .tp_call = PyVectorcall_Call,
    .tp_new = construct,
    .tp_dealloc = (destructor)dealloc,
    .tp_methods = methods,
    .tp_getset = getters,
};
