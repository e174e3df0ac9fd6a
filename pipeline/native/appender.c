/* Appends ordinary events to the columns of a block, as `pipeline.transform.rows.RowTransformer.append` does. */

#include "native.h"
#include <structmember.h>

enum { EVENT, ID, TIME, PROPERTIES, KEY, UUID, WARNINGS, SLOTS };

typedef struct {
    PyObject_HEAD
    PyObject *slow;     /* appends, or not, what is left to it */
    PyObject *type;     /* of events */
    PyObject *writer;
    PyObject *heads;    /* dict: the beginning of events by their names; of valid names alone */
    PyObject *is_valid, *newest;
    Py_ssize_t most;
    PyObject *endings[3]; /* after whole seconds, milliseconds and microseconds */
    PyObject *ends, *times, *keys, *rows; /* lists */
    PyObject *own;                        /* dict: the uuids of events by their number in the run */
    PyObject *nothing;                    /* "" */
    PyObject *names[SLOTS];
    Py_ssize_t offsets[SLOTS]; /* of the attributes in an event; 0: not a slot */
    vectorcallfunc call;
} Appender;

static const char *const slot_names[SLOTS] = {"event", "distinct_id", "time", "properties", "key", "uuid", "warnings"};

/* An attribute of an event, as a new reference. */
static PyObject *
slot(Appender *self, PyObject *event, int number)
{
    PyObject *value = self->offsets[number] ? *(PyObject **)((char *)event + self->offsets[number]) : NULL;
    return value != NULL ? Py_NewRef(value) : PyObject_GetAttr(event, self->names[number]);
}

/* The attributes that an event is written with. */
typedef struct {
    PyObject *values[SLOTS];
} Event;

static void
release(Event *event)
{
    for (int n = 0; n < SLOTS; n++)
        Py_XDECREF(event->values[n]);
}

/* Whether an event breaks no rule; -1 with an exception. Runs Python. */
static int
is_valid(Appender *self, const Event *event)
{
    PyObject *all[] = {event->values[TIME], event->values[ID], self->newest};
    PyObject *answer = PyObject_Vectorcall(self->is_valid, all, 3, NULL);
    int valid = answer == NULL ? -1 : PyObject_IsTrue(answer);
    Py_XDECREF(answer);
    return valid;
}

static int
add_number(PyObject *list, Py_ssize_t value)
{
    PyObject *number = PyLong_FromSsize_t(value);
    int done = number == NULL ? -1 : PyList_Append(list, number);
    Py_XDECREF(number);
    return done;
}

/* Add what belongs to the event that ends the text. */
static int
add_columns(Appender *self, const Event *event, PyObject *text, PyObject *row)
{
    PyObject *key = event->values[KEY];
    if (event->values[UUID] != Py_None) {
        PyObject *number = PyLong_FromSsize_t(PyList_GET_SIZE(self->ends));
        int done = number == NULL ? -1 : PyDict_SetItem(self->own, number, event->values[UUID]);
        Py_XDECREF(number);
        if (done < 0)
            return -1;
        key = self->nothing;
    }
    return PyList_Append(self->keys, key) < 0 || add_number(self->ends, PyByteArray_GET_SIZE(text)) < 0 ||
                   PyList_Append(self->times, event->values[TIME]) < 0 || PyList_Append(self->rows, row) < 0
               ? -1
               : 0;
}

/* 1 where the event was appended, 0 where it is not ordinary, 2 where Python appends it, -1 with an exception. */
static int
append_event(Appender *self, const Event *event, PyObject *text, PyObject *row)
{
    PyObject *const *values = event->values;
    if (PyObject_Size(values[WARNINGS]) != 0)
        return PyErr_Occurred() ? -1 : 0;
    if (!Members_Check(values[PROPERTIES]) || (values[KEY] == Py_None && values[UUID] == Py_None))
        return 2;
    PyObject *head = PyDict_GetItemWithError(self->heads, values[EVENT]);
    if (head == NULL)
        return PyErr_Occurred() ? -1 : 0;
    Py_INCREF(head); /* Python that is called may remove it */
    int done = is_valid(self, event);
    if (done > 0) {
        long long time = PyLong_AsLongLong(values[TIME]);
        PyObject *ending = self->endings[time % 1000000 == 0 ? 0 : time % 1000 == 0 ? 1 : 2];
        PyObject *all[] = {text, head, values[ID], values[PROPERTIES], ending};
        done = time == -1 && PyErr_Occurred() ? -1 : writer_write(self->writer, all, self->most);
    }
    Py_DECREF(head);
    return done > 0 && add_columns(self, event, text, row) < 0 ? -1 : done;
}

/* appender(text, row, outcome) -> bool */
static PyObject *
append(PyObject *callable, PyObject *const *arguments, size_t flags, PyObject *named)
{
    Appender *self = (Appender *)callable;
    if (PyVectorcall_NARGS(flags) != 3 || named != NULL || !PyByteArray_CheckExact(arguments[0]))
        return PyErr_Format(PyExc_TypeError, "text, row and outcome were expected");
    if ((PyObject *)Py_TYPE(arguments[2]) != self->type)
        Py_RETURN_FALSE;
    Event event = {{NULL}};
    int done = 0;
    for (int n = 0; n < SLOTS && done == 0; n++)
        if ((event.values[n] = slot(self, arguments[2], n)) == NULL)
            done = -1;
    if (done == 0)
        done = append_event(self, &event, arguments[0], arguments[1]);
    release(&event);
    if (done == 2)
        return PyObject_Vectorcall(self->slow, arguments, 3, NULL);
    return done < 0 ? NULL : PyBool_FromLong(done);
}

/* Read where the attributes of events are: where they are slots, as those of msgspec.Struct are. */
static int
take_slots(Appender *self)
{
    for (int n = 0; n < SLOTS; n++) {
        if ((self->names[n] = PyUnicode_InternFromString(slot_names[n])) == NULL)
            return -1;
        PyObject *attribute = PyObject_GetAttr(self->type, self->names[n]);
        if (attribute == NULL)
            return -1;
        const PyMemberDescrObject *member = (const PyMemberDescrObject *)attribute;
        if (Py_IS_TYPE(attribute, &PyMemberDescr_Type) && member->d_member->type == T_OBJECT_EX &&
            PyType_IsSubtype((PyTypeObject *)self->type, PyDescr_TYPE(attribute)))
            self->offsets[n] = member->d_member->offset;
        Py_DECREF(attribute);
    }
    return 0;
}

static PyObject *
construct(PyTypeObject *type, PyObject *arguments, PyObject *named)
{
    PyObject *slow, *event, *writer, *heads, *valid, *newest, *endings[3], *ends, *times, *keys, *rows, *own;
    Py_ssize_t most;
    static char *keywords[] = {"slow", "type", "writer", "heads", "is_valid", "newest", "most",
                               "endings", "ends", "times", "keys", "rows", "own", NULL};
    if (!PyArg_ParseTupleAndKeywords(arguments, named, "OO!O!O!OOn(SSS)O!O!O!O!O!", keywords, &slow, &PyType_Type,
                                     &event, &Writer_Type, &writer, &PyDict_Type, &heads, &valid, &newest, &most,
                                     &endings[0], &endings[1], &endings[2], &PyList_Type, &ends, &PyList_Type, &times,
                                     &PyList_Type, &keys, &PyList_Type, &rows, &PyDict_Type, &own))
        return NULL;
    Appender *self = (Appender *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->call = append;
    self->slow = Py_NewRef(slow);
    self->type = Py_NewRef(event);
    self->writer = Py_NewRef(writer);
    self->heads = Py_NewRef(heads);
    self->is_valid = Py_NewRef(valid);
    self->newest = Py_NewRef(newest);
    self->most = most;
    for (int n = 0; n < 3; n++)
        self->endings[n] = Py_NewRef(endings[n]);
    self->ends = Py_NewRef(ends);
    self->times = Py_NewRef(times);
    self->keys = Py_NewRef(keys);
    self->rows = Py_NewRef(rows);
    self->own = Py_NewRef(own);
    self->nothing = PyUnicode_FromString("");
    if (self->nothing == NULL || take_slots(self) < 0)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void
dealloc(Appender *self)
{
    PyObject *const all[] = {self->slow,       self->type,       self->writer,     self->heads, self->is_valid,
                             self->newest,     self->endings[0], self->endings[1], self->endings[2], self->ends,
                             self->times,      self->keys,       self->rows,       self->own,   self->nothing};
    for (size_t n = 0; n < sizeof(all) / sizeof(all[0]); n++)
        Py_XDECREF(all[n]);
    for (int n = 0; n < SLOTS; n++)
        Py_XDECREF(self->names[n]);
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
