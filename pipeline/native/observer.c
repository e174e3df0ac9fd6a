/* Records what a plan needs of a valid event, as `pipeline.transform.observer` does. */

#include "accumulators.h"
#include "native.h"
#include <structmember.h>

#define OVERWRITES 1
#define GROUPS 2
#define NOTE 4

/* Columns of int64, in µs; the last two have an entry where a row has a receive time and a wall time. */
enum { TIMES, RECEIVED, WALLS, WALLS_RECEIVED, COLUMNS };

typedef struct {
    int64_t *numbers;
    Py_ssize_t used, room;
} Column;

/* An event whose id and note are aggregated later, while the memory for that is prefetched. */
typedef struct {
    PyObject *id, *note, *received;
    int64_t row, time;
    uint64_t hash;
} Waiting;

typedef struct {
    PyObject_HEAD
    PyObject *names;
    Column columns[COLUMNS];
    Accumulator *ids;        /* NULL: neither ids nor notes are aggregated */
    Accumulator *pairs;      /* NULL: the caller aggregates notes */
    Accumulator *properties; /* NULL: properties of persons are not aggregated */
    int64_t first_row; /* the position of the block's row 0 */
    int64_t absent;    /* for a missing receive time */
    Waiting waiting[PREFETCH_STEPS]; /* a ring; the oldest, at `next`, is aggregated when another event comes */
    int next;
    vectorcallfunc call;
} Observer;

static PyObject *text_set, *text_groups;
static Name *name_set, *name_groups;

int
observer_init(void)
{
    text_set = PyUnicode_InternFromString("$set");
    text_groups = PyUnicode_InternFromString("$groups");
    if (text_set == NULL || text_groups == NULL)
        return -1;
    name_set = name_of(text_set);
    name_groups = name_of(text_groups);
    return name_set == NULL || name_groups == NULL ? -1 : 0;
}

/* --- attributes of UnvalidatedEvent and Note, by their offsets in the object --- */

enum { EVENT, RECEIVED_AT, WALL, NOTED };
enum { ANONYMOUS, USER, SETS, SETS_ONCE };
#define SLOTS 4

typedef struct {
    PyTypeObject *type; /* whose offsets these are; owned */
    const char *names[SLOTS];
    PyObject *texts[SLOTS];
    Py_ssize_t offsets[SLOTS]; /* 0: not a slot */
} Slots;

static Slots of_draft = {.names = {"event", "received", "wall", "note"}};
static Slots of_note = {.names = {"anonymous", "user", "set", "set_once"}};

/* Read the offsets of a type. */
static int
load_slots(Slots *slots, PyTypeObject *type)
{
    Py_ssize_t offsets[SLOTS]; /* stored at the end: looking up an attribute may run Python that calls this */
    for (int n = 0; n < SLOTS; n++) {
        if (slots->texts[n] == NULL && (slots->texts[n] = PyUnicode_InternFromString(slots->names[n])) == NULL)
            return -1;
        PyObject *attribute = PyObject_GetAttr((PyObject *)type, slots->texts[n]);
        if (attribute == NULL)
            PyErr_Clear();
        const PyMemberDescrObject *member = (const PyMemberDescrObject *)attribute;
        offsets[n] = attribute != NULL && Py_IS_TYPE(attribute, &PyMemberDescr_Type) &&
                             member->d_member->type == T_OBJECT_EX && PyType_IsSubtype(type, PyDescr_TYPE(attribute))
                         ? member->d_member->offset
                         : 0;
        Py_XDECREF(attribute);
    }
    memcpy(slots->offsets, offsets, sizeof(offsets));
    PyTypeObject *previous = slots->type;
    slots->type = (PyTypeObject *)Py_NewRef(type);
    Py_XDECREF(previous);
    return 0;
}

/* An attribute, by its number; NULL with an exception. */
static PyObject *
slot(Slots *slots, PyObject *of, int number)
{
    if (!Py_IS_TYPE(of, slots->type) && load_slots(slots, Py_TYPE(of)) < 0)
        return NULL;
    if (slots->offsets[number]) {
        PyObject *value = *(PyObject **)((char *)of + slots->offsets[number]);
        if (value != NULL)
            return Py_NewRef(value);
    }
    return PyObject_GetAttr(of, slots->texts[number]);
}

/* --- recording --- */

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
record(Observer *self, PyObject *event, int64_t time, PyObject *received, PyObject *wall)
{
    int64_t received_at = 0, wall_time = 0;
    if (received != Py_None && (received_at = PyLong_AsLongLong(received)) == -1 && PyErr_Occurred())
        return -1;
    if (wall != Py_None && (wall_time = PyLong_AsLongLong(wall)) == -1 && PyErr_Occurred())
        return -1;
    Column *columns = self->columns;
    if (PyList_Append(self->names, event) < 0 || column_add(&columns[TIMES], time) < 0 ||
        column_add(&columns[RECEIVED], received_at) < 0)
        return -1;
    if (wall == Py_None || received_at == 0)
        return 0;
    return column_add(&columns[WALLS], wall_time) < 0 || column_add(&columns[WALLS_RECEIVED], received_at) < 0 ? -1 : 0;
}

static int
has(PyObject *properties, PyObject *name)
{
    return PyDict_Check(properties) ? PyDict_Contains(properties, name) : PySequence_Contains(properties, name);
}

/* OVERWRITES and GROUPS, where an event has those properties; -1 with an exception. */
static long
unobserved(PyObject *properties)
{
    long found = 0;
    if (Members_Check(properties)) {
        const Members *members = (const Members *)properties;
        for (const Member *member = members->members, *end = member + members->used; member < end; member++)
            found |= member->name == name_set ? OVERWRITES : member->name == name_groups ? GROUPS : 0;
        return found;
    }
    int overwrites = has(properties, text_set), groups = has(properties, text_groups);
    return overwrites < 0 || groups < 0 ? -1 : (overwrites ? OVERWRITES : 0) | (groups ? GROUPS : 0);
}

static int
aggregate_properties(Observer *self, int32_t *guess, int kind, PyObject *note, int number, PyObject *owner, int64_t at,
                     int64_t received)
{
    PyObject *values = slot(&of_note, note, number);
    int failed = values == NULL ||
                 (values != Py_None &&
                  accumulate_properties(self->properties, guess, kind, owner, values, at, received) < 0);
    Py_XDECREF(values);
    return failed ? -1 : 0;
}

/* Pairs and properties get the accumulator's own text of an id, so that they can be compared by address. Python that
 * runs here may let the accumulator grow: its entry is looked up by its number each time. */
static int
aggregate_note(Observer *self, Py_ssize_t number, PyObject *note, PyObject *user, int64_t position, int64_t time,
               PyObject *received)
{
    PyObject *owner = Py_NewRef(self->ids->entries[number].text), *anonymous = slot(&of_note, note, ANONYMOUS);
    int failed = anonymous == NULL;
    if (!failed && anonymous != Py_None && user != Py_None) {
        PyObject *user_text = PyUnicode_CheckExact(user) && same_text(user, owner) ? owner : user;
        int32_t *guess = &self->ids->entries[number].paired;
        failed = accumulate_pair(self->pairs, guess, anonymous, user_text, 1, time, time, position) < 0;
    }
    Py_XDECREF(anonymous);
    int64_t received_at = self->absent;
    if (!failed && self->properties != NULL) {
        if (received != Py_None)
            failed = (received_at = PyLong_AsLongLong(received)) == -1 && PyErr_Occurred();
        int32_t guess = self->ids->entries[number].updated;
        failed = failed ||
                 aggregate_properties(self, &guess, UPDATE_SET, note, SETS, owner, time, received_at) < 0 ||
                 aggregate_properties(self, &guess, UPDATE_SET_ONCE, note, SETS_ONCE, owner, time, received_at) < 0;
        self->ids->entries[number].updated = guess;
    }
    Py_DECREF(owner);
    return failed ? -1 : 0;
}

/* Aggregate the event at an index of the ring, if there is one. */
static int
aggregate(Observer *self, int index)
{
    Waiting event = self->waiting[index];
    if (event.id == NULL)
        return 0;
    self->waiting[index].id = NULL;
    PyObject *user = event.note == Py_None ? Py_NewRef(Py_None) : slot(&of_note, event.note, USER);
    int failed = user == NULL;
    if (!failed) {
        int users = PyUnicode_CheckExact(user) && PyUnicode_CheckExact(event.id) && same_text(user, event.id);
        int64_t position;
        if (__builtin_add_overflow(self->first_row, event.row, &position)) {
            PyErr_SetString(PyExc_OverflowError, "the position of a row has 64 bits");
            failed = 1;
        }
        const Entry *entry = failed ? NULL : accumulate_id(self->ids, event.id, event.time, users, position);
        failed = entry == NULL || (event.note != Py_None && self->pairs != NULL &&
                                  aggregate_note(self, entry - self->ids->entries, event.note, user, position,
                                                 event.time, event.received) < 0);
    }
    Py_XDECREF(user);
    Py_DECREF(event.id);
    Py_DECREF(event.note);
    Py_DECREF(event.received);
    return failed ? -1 : 0;
}

/* Aggregate the oldest event of the ring, and put another in its slot. */
static int
enqueue(Observer *self, PyObject *id, PyObject *note, PyObject *received, int64_t row, int64_t time)
{
    if (!PyUnicode_CheckExact(id)) {
        PyErr_SetString(PyExc_TypeError, "an id is a str");
        return -1;
    }
    if (aggregate(self, self->next) < 0)
        return -1;
    if (self->waiting[self->next].id != NULL) {
        PyErr_SetString(PyExc_RuntimeError, "the observer was called while it called Python");
        return -1;
    }
    self->waiting[self->next] =
        (Waiting){Py_NewRef(id), Py_NewRef(note), Py_NewRef(received), row, time, id_slot_hash(id)};
    for (int step = 0, index = self->next; step < PREFETCH_STEPS; step++) {
        if (self->waiting[index].id != NULL)
            prefetch_id(self->ids, self->waiting[index].hash, step, self->pairs, self->properties);
        index = index ? index - 1 : PREFETCH_STEPS - 1;
    }
    self->next = (self->next + 1) % PREFETCH_STEPS;
    return 0;
}

/* observer(row, draft, time, distinct_id, properties): what remains for the caller, as bits */
static PyObject *
observe(PyObject *callable, PyObject *const *arguments, size_t count, PyObject *Py_UNUSED(named))
{
    Observer *self = (Observer *)callable;
    if (PyVectorcall_NARGS(count) != 5)
        return PyErr_Format(PyExc_TypeError, "five arguments were expected");
    PyObject *draft = arguments[1], *id = arguments[3], *properties = arguments[4];
    int64_t row = PyLong_AsLongLong(arguments[0]);
    if (row == -1 && PyErr_Occurred())
        return NULL;
    int64_t time = PyLong_AsLongLong(arguments[2]);
    if (time == -1 && PyErr_Occurred())
        return NULL;
    long remaining = unobserved(properties);
    if (remaining < 0)
        return NULL;
    PyObject *event = slot(&of_draft, draft, EVENT), *received = NULL, *wall = NULL, *note = NULL;
    int failed = event == NULL || (received = slot(&of_draft, draft, RECEIVED_AT)) == NULL ||
                 (wall = slot(&of_draft, draft, WALL)) == NULL || (note = slot(&of_draft, draft, NOTED)) == NULL ||
                 record(self, event, time, received, wall) < 0 ||
                 (self->ids != NULL && enqueue(self, id, note, received, row, time) < 0);
    if (note != Py_None && self->pairs == NULL)
        remaining |= NOTE;
    Py_XDECREF(event);
    Py_XDECREF(received);
    Py_XDECREF(wall);
    Py_XDECREF(note);
    return failed ? NULL : PyLong_FromLong(remaining);
}

PyObject *
number_names(PyObject *Py_UNUSED(module), PyObject *names)
{
    if (!PyList_CheckExact(names))
        return PyErr_Format(PyExc_TypeError, "a list of str was expected");
    Py_ssize_t count = PyList_GET_SIZE(names);
    PyObject *known = PyDict_New(), *numbers = PyBytes_FromStringAndSize(NULL, count * (Py_ssize_t)sizeof(uint32_t));
    int failed = known == NULL || numbers == NULL;
    for (Py_ssize_t i = 0; !failed && i < count; i++) {
        PyObject *name = PyList_GET_ITEM(names, i);
        if (!PyUnicode_CheckExact(name)) { /* so that no Python runs */
            PyErr_SetString(PyExc_TypeError, "a list of str was expected");
            failed = 1;
            break;
        }
        PyObject *number = PyDict_GetItemWithError(known, name);
        if (number == NULL && !PyErr_Occurred()) {
            PyObject *next = PyLong_FromSsize_t(PyDict_GET_SIZE(known));
            number = next == NULL ? NULL : PyDict_SetDefault(known, name, next);
            Py_XDECREF(next);
        }
        uint32_t at = number == NULL ? 0 : (uint32_t)PyLong_AsUnsignedLong(number);
        failed = number == NULL;
        if (!failed)
            memcpy(PyBytes_AS_STRING(numbers) + i * (Py_ssize_t)sizeof(at), &at, sizeof(at));
    }
    PyObject *distinct = failed ? NULL : PyDict_Keys(known);
    PyObject *both = distinct == NULL ? NULL : PyTuple_Pack(2, distinct, numbers);
    Py_XDECREF(distinct);
    Py_XDECREF(known);
    Py_XDECREF(numbers);
    return both;
}

/* add(event, time, received, wall): the same of an event whose id and note are aggregated elsewhere. */
static PyObject *
add(Observer *self, PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 4)
        return PyErr_Format(PyExc_TypeError, "four arguments were expected");
    int64_t time = PyLong_AsLongLong(arguments[1]);
    if ((time == -1 && PyErr_Occurred()) || record(self, arguments[0], time, arguments[2], arguments[3]) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* cut(events, walls): remove all events and wall times after so many. */
static PyObject *
cut(Observer *self, PyObject *arguments)
{
    Py_ssize_t events, walls;
    if (!PyArg_ParseTuple(arguments, "nn", &events, &walls))
        return NULL;
    Column *columns = self->columns;
    if (events < 0 || walls < 0 || events > columns[TIMES].used || walls > columns[WALLS].used)
        return PyErr_Format(PyExc_ValueError, "cut to more than there are");
    if (PyList_SetSlice(self->names, events, PY_SSIZE_T_MAX, NULL) < 0)
        return NULL;
    columns[TIMES].used = columns[RECEIVED].used = events;
    columns[WALLS].used = columns[WALLS_RECEIVED].used = walls;
    Py_RETURN_NONE;
}

/* columns(): times, received, walls and the receive times of those, as bytes of int64. The ring is emptied first. */
static PyObject *
columns(Observer *self, PyObject *Py_UNUSED(none))
{
    for (int n = 0; n < PREFETCH_STEPS; n++)
        if (aggregate(self, (self->next + n) % PREFETCH_STEPS) < 0)
            return NULL;
    PyObject *all = PyTuple_New(COLUMNS);
    for (int n = 0; all != NULL && n < COLUMNS; n++) {
        const Column *column = &self->columns[n];
        Py_ssize_t size = column->used * (Py_ssize_t)sizeof(int64_t);
        PyObject *bytes = PyBytes_FromStringAndSize((const char *)column->numbers, size);
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

static int
is_optional(PyObject *object, PyTypeObject *type)
{
    return object == Py_None || Py_IS_TYPE(object, type);
}

static PyObject *
construct(PyTypeObject *type, PyObject *arguments, PyObject *named)
{
    PyObject *names, *ids, *pairs, *properties;
    long long first_row, absent;
    static char *keywords[] = {"names", "ids", "pairs", "properties", "first_row", "absent", NULL};
    if (!PyArg_ParseTupleAndKeywords(arguments, named, "O!OOOLL", keywords, &PyList_Type, &names, &ids, &pairs,
                                     &properties, &first_row, &absent))
        return NULL;
    if (!is_optional(ids, &IdAccumulator_Type) || !is_optional(pairs, &PairAccumulator_Type) ||
        !is_optional(properties, &PropertyAccumulator_Type) || (ids == Py_None && pairs != Py_None))
        return PyErr_Format(PyExc_TypeError, "a list and accumulators of ids, pairs and properties were expected");
    Observer *self = (Observer *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->call = observe;
    self->names = Py_NewRef(names);
    self->ids = ids == Py_None ? NULL : (Accumulator *)Py_NewRef(ids);
    self->pairs = pairs == Py_None ? NULL : (Accumulator *)Py_NewRef(pairs);
    self->properties = properties == Py_None ? NULL : (Accumulator *)Py_NewRef(properties);
    self->first_row = first_row;
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
