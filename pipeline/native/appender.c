/* Appends ordinary events to the columns of a block, as `pipeline.transform.rows.RowTransformer.append` does. */

#include "native.h"
#include <structmember.h>

/* The arguments of an Appender, in order: `slow` appends what is left to it, `type` is the type of events, `heads` are
 * the beginnings of events by name, and `own` the uuids of events by their number in the run. */
enum { SLOW, TYPE, WRITER, HEADS, IS_VALID, NEWEST, MOST, ENDING };
enum { ENDS = ENDING + 3, TIMES, KEYS, ROWS, OWN, OBSERVER, GIVEN };
enum { EVENT, ID, TIME, PROPERTIES, KEY, UUID, WARNINGS, SLOTS };

typedef struct {
    PyObject_HEAD
    PyObject *given[GIVEN];
    Py_ssize_t offsets[SLOTS]; /* of the attributes in an event */
    vectorcallfunc call;
} Appender;

static const char *const slot_names[SLOTS] = {"event", "distinct_id", "time", "properties", "key", "uuid", "warnings"};

/* Record the event that was appended last. */
static int
add_columns(PyObject *const *given, PyObject *const *values, PyObject *text, PyObject *row)
{
    int has_uuid = values[UUID] != Py_None;
    PyObject *number = PyLong_FromSsize_t(PyList_GET_SIZE(given[ENDS]));
    PyObject *end = number == NULL ? NULL : PyLong_FromSsize_t(PyByteArray_GET_SIZE(text));
    int failed = end == NULL || (has_uuid && PyDict_SetItem(given[OWN], number, values[UUID]) < 0) ||
                 PyList_Append(given[KEYS], values[has_uuid ? UUID : KEY]) < 0 ||
                 PyList_Append(given[ENDS], end) < 0 || PyList_Append(given[TIMES], values[TIME]) < 0 ||
                 PyList_Append(given[ROWS], row) < 0;
    Py_XDECREF(number);
    Py_XDECREF(end);
    return failed ? -1 : 0;
}

/* 1 if the event was appended, 0 if it is not ordinary, -1 with an exception. Runs Python. */
static int
append_event(PyObject *const *given, PyObject *const *values, PyObject *text, PyObject *row)
{
    PyObject *head = PyDict_GetItemWithError(given[HEADS], values[EVENT]);
    if (head == NULL)
        return PyErr_Occurred() ? -1 : 0;
    PyObject *rules[] = {values[TIME], values[ID], given[NEWEST]};
    Py_INCREF(head); /* called Python code may remove it */
    PyObject *answer = PyObject_Vectorcall(given[IS_VALID], rules, 3, NULL);
    int done = answer == NULL ? -1 : PyObject_IsTrue(answer);
    Py_XDECREF(answer);
    if (done > 0) {
        long long time = PyLong_AsLongLong(values[TIME]);
        PyObject *ending = given[ENDING + (time % 1000000 == 0 ? 0 : time % 1000 == 0 ? 1 : 2)];
        PyObject *all[] = {text, head, values[ID], values[PROPERTIES], ending, given[MOST]};
        answer = time == -1 && PyErr_Occurred() ? NULL : PyObject_Vectorcall(given[WRITER], all, 6, NULL);
        done = answer == NULL ? -1 : answer == Py_True;
        Py_XDECREF(answer);
    }
    Py_DECREF(head);
    return done > 0 && add_columns(given, values, text, row) < 0 ? -1 : done;
}

/* appender(text, row, outcome): None if it is not ordinary, otherwise what its observer returns, or 0 without one. */
static PyObject *
append(PyObject *callable, PyObject *const *arguments, size_t flags, PyObject *named)
{
    Appender *self = (Appender *)callable;
    PyObject *const *given = self->given;
    if (PyVectorcall_NARGS(flags) != 3 || named != NULL || !PyByteArray_CheckExact(arguments[0]))
        return PyErr_Format(PyExc_TypeError, "text, row and outcome were expected");
    PyObject *event = arguments[2], *values[SLOTS];
    if ((PyObject *)Py_TYPE(event) != given[TYPE])
        Py_RETURN_NONE;
    for (int n = 0; n < SLOTS; n++)
        if ((values[n] = *(PyObject **)((char *)event + self->offsets[n])) == NULL)
            return PyErr_Format(PyExc_AttributeError, "%s", slot_names[n]);
    if (!Members_Check(values[PROPERTIES]) || (values[KEY] == Py_None && values[UUID] == Py_None) ||
        !PyTuple_Check(values[WARNINGS]) || PyTuple_GET_SIZE(values[WARNINGS]))
        return PyObject_Vectorcall(given[SLOW], arguments, 3, NULL);
    for (int n = 0; n < SLOTS; n++) /* called Python code may change the event */
        Py_INCREF(values[n]);
    int done = append_event(given, values, arguments[0], arguments[1]);
    PyObject *observed[] = {event, values[TIME], values[ID], values[PROPERTIES]}, *answer = NULL;
    if (done > 0)
        answer = given[OBSERVER] == Py_None ? PyLong_FromLong(0)
                                            : PyObject_Vectorcall(given[OBSERVER], observed, 4, NULL);
    else if (done == 0)
        answer = Py_NewRef(Py_None);
    for (int n = 0; n < SLOTS; n++)
        Py_DECREF(values[n]);
    return answer;
}

static PyObject *
construct(PyTypeObject *type, PyObject *arguments, PyObject *Py_UNUSED(named))
{
    PyObject *g[GIVEN];
    if (!PyArg_ParseTuple(arguments, "OO!O!O!OOO!(SSS)O!O!O!O!O!O", &g[SLOW], &PyType_Type, &g[TYPE], &Writer_Type,
                          &g[WRITER], &PyDict_Type, &g[HEADS], &g[IS_VALID], &g[NEWEST], &PyLong_Type, &g[MOST],
                          &g[ENDING], &g[ENDING + 1], &g[ENDING + 2], &PyList_Type, &g[ENDS], &PyList_Type, &g[TIMES],
                          &PyList_Type, &g[KEYS], &PyList_Type, &g[ROWS], &PyDict_Type, &g[OWN], &g[OBSERVER]))
        return NULL;
    Appender *self = (Appender *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->call = append;
    for (int n = 0; n < GIVEN; n++)
        self->given[n] = Py_NewRef(g[n]);
    for (int n = 0; n < SLOTS && self != NULL; n++) { /* every attribute of a msgspec.Struct is a slot */
        PyMemberDescrObject *slot = (PyMemberDescrObject *)PyObject_GetAttrString(g[TYPE], slot_names[n]);
        if (slot != NULL && Py_IS_TYPE(slot, &PyMemberDescr_Type))
            self->offsets[n] = slot->d_member->offset;
        else
            Py_CLEAR(self);
        Py_XDECREF(slot);
    }
    return self != NULL || PyErr_Occurred() ? (PyObject *)self : PyErr_Format(PyExc_TypeError, "no struct");
}

static void
dealloc(Appender *self)
{
    for (int n = 0; n < GIVEN; n++)
        Py_XDECREF(self->given[n]);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

PyTypeObject Appender_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "pipeline.native._native.Appender",
    .tp_basicsize = sizeof(Appender),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Appender, call),
    .tp_call = PyVectorcall_Call,
    .tp_new = construct,
    .tp_dealloc = (destructor)dealloc,
};
