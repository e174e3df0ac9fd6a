/* Records what a plan needs about a valid event, as `pipeline.transform.observer` does. */

#include "native.h"

#define OVERWRITES 1
#define GROUPS 2

/* Columns of int64, in µs; WALLS and WALLS_RECEIVED have an entry for each row with a receive and a wall time, and
 * NOTED has the number of each event with a note. */
enum { TIMES, RECEIVED, WALLS, WALLS_RECEIVED, NOTED, COLUMNS };

typedef struct {
    int64_t *numbers;
    Py_ssize_t used, room;
} Column;

typedef struct {
    PyObject_HEAD
    PyObject *names, *distinct_ids; /* lists with an entry for each event */
    PyObject *notes;                /* a list with an entry for each number in NOTED */
    Column columns[COLUMNS];
    vectorcallfunc call;
} Observer;

static PyObject *text_set, *text_groups, *text_event, *text_received, *text_wall, *text_note;

int
observer_init(void)
{
    text_set = PyUnicode_InternFromString("$set");
    text_groups = PyUnicode_InternFromString("$groups");
    text_event = PyUnicode_InternFromString("event");
    text_received = PyUnicode_InternFromString("received");
    text_wall = PyUnicode_InternFromString("wall");
    text_note = PyUnicode_InternFromString("note");
    return PyErr_Occurred() ? -1 : 0;
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
record(Observer *self, PyObject *event, PyObject *id, int64_t time, PyObject *received, PyObject *wall, PyObject *note)
{
    int64_t received_at = 0, wall_time = 0;
    if (received != Py_None && (received_at = PyLong_AsLongLong(received)) == -1 && PyErr_Occurred())
        return -1;
    if (wall != Py_None && (wall_time = PyLong_AsLongLong(wall)) == -1 && PyErr_Occurred())
        return -1;
    Column *columns = self->columns;
    if (PyList_Append(self->names, event) < 0 || PyList_Append(self->distinct_ids, id) < 0 ||
        column_add(&columns[TIMES], time) < 0 || column_add(&columns[RECEIVED], received_at) < 0)
        return -1;
    if (note != Py_None &&
        (PyList_Append(self->notes, note) < 0 || column_add(&columns[NOTED], columns[TIMES].used - 1) < 0))
        return -1;
    if (wall == Py_None || received_at == 0)
        return 0;
    return column_add(&columns[WALLS], wall_time) < 0 || column_add(&columns[WALLS_RECEIVED], received_at) < 0 ? -1 : 0;
}

/* OVERWRITES and GROUPS, if an event has such properties; -1 with an exception. */
static long
unobserved(PyObject *properties)
{
    int overwrites = PySequence_Contains(properties, text_set), groups = PySequence_Contains(properties, text_groups);
    return overwrites < 0 || groups < 0 ? -1 : (overwrites ? OVERWRITES : 0) | (groups ? GROUPS : 0);
}

/* observer(draft, time, distinct_id, properties): what is left for the caller to do, as bits */
static PyObject *
observe(PyObject *callable, PyObject *const *arguments, size_t count, PyObject *Py_UNUSED(named))
{
    Observer *self = (Observer *)callable;
    if (PyVectorcall_NARGS(count) != 4)
        return PyErr_Format(PyExc_TypeError, "four arguments were expected");
    PyObject *draft = arguments[0], *id = arguments[2], *properties = arguments[3];
    int64_t time = PyLong_AsLongLong(arguments[1]);
    if (time == -1 && PyErr_Occurred())
        return NULL;
    long remaining = unobserved(properties);
    if (remaining < 0)
        return NULL;
    PyObject *event = PyObject_GetAttr(draft, text_event), *received = NULL, *wall = NULL, *note = NULL;
    int failed = event == NULL || (received = PyObject_GetAttr(draft, text_received)) == NULL ||
                 (wall = PyObject_GetAttr(draft, text_wall)) == NULL ||
                 (note = PyObject_GetAttr(draft, text_note)) == NULL ||
                 record(self, event, id, time, received, wall, note) < 0;
    Py_XDECREF(event);
    Py_XDECREF(received);
    Py_XDECREF(wall);
    Py_XDECREF(note);
    return failed ? NULL : PyLong_FromLong(remaining);
}

/* add(event, distinct_id, time, received, wall, note): records an event given by its parts. */
static PyObject *
add(Observer *self, PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 6)
        return PyErr_Format(PyExc_TypeError, "six arguments were expected");
    int64_t time = PyLong_AsLongLong(arguments[2]);
    if ((time == -1 && PyErr_Occurred()) ||
        record(self, arguments[0], arguments[1], time, arguments[3], arguments[4], arguments[5]) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* cut(events, walls): remove all events and wall times beyond these numbers. */
static PyObject *
cut(Observer *self, PyObject *arguments)
{
    Py_ssize_t events, walls;
    if (!PyArg_ParseTuple(arguments, "nn", &events, &walls))
        return NULL;
    Column *columns = self->columns;
    if (events < 0 || walls < 0 || events > columns[TIMES].used || walls > columns[WALLS].used)
        return PyErr_Format(PyExc_ValueError, "cannot cut to more than there are");
    Py_ssize_t notes = columns[NOTED].used;
    while (notes > 0 && columns[NOTED].numbers[notes - 1] >= events)
        notes--;
    if (PyList_SetSlice(self->names, events, PY_SSIZE_T_MAX, NULL) < 0 ||
        PyList_SetSlice(self->distinct_ids, events, PY_SSIZE_T_MAX, NULL) < 0 ||
        PyList_SetSlice(self->notes, notes, PY_SSIZE_T_MAX, NULL) < 0)
        return NULL;
    columns[TIMES].used = columns[RECEIVED].used = events;
    columns[WALLS].used = columns[WALLS_RECEIVED].used = walls;
    columns[NOTED].used = notes;
    Py_RETURN_NONE;
}

/* columns(): the columns as bytes of int64. */
static PyObject *
columns(Observer *self, PyObject *Py_UNUSED(none))
{
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

static PyObject *
construct(PyTypeObject *type, PyObject *arguments, PyObject *named)
{
    PyObject *names, *distinct_ids, *notes;
    static char *keywords[] = {"names", "distinct_ids", "notes", NULL};
    if (!PyArg_ParseTupleAndKeywords(arguments, named, "O!O!O!", keywords, &PyList_Type, &names, &PyList_Type,
                                     &distinct_ids, &PyList_Type, &notes))
        return NULL;
    Observer *self = (Observer *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->call = observe;
    self->names = Py_NewRef(names);
    self->distinct_ids = Py_NewRef(distinct_ids);
    self->notes = Py_NewRef(notes);
    return (PyObject *)self;
}

static void
dealloc(Observer *self)
{
    for (int n = 0; n < COLUMNS; n++)
        PyMem_Free(self->columns[n].numbers);
    Py_CLEAR(self->names);
    Py_CLEAR(self->distinct_ids);
    Py_CLEAR(self->notes);
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
