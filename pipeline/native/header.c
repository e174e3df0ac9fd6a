/* Members from values that Python has read: the cells of a delimited row, the columns of Parquet, a record of Avro. */

#include "native.h"

typedef struct {
    PyObject_HEAD
    Name **names;
    Py_ssize_t count, room;
    int fixed; /* the names are given; otherwise they are those of the previous dict, by position */
    vectorcallfunc call;
} Header;

/* Take a reference to the value of a member, unless it is missing. -1 with an exception. */
static int
add_value(Members *row, Name *name, PyObject *value)
{
    if (value == Py_None)
        return 0;
    Member *member = members_add(row);
    if (member == NULL)
        return -1;
    *member = (Member){.name = name};
    return members_put(member, value);
}

static int
add_name(Header *self, Name *name)
{
    if (self->count == self->room) {
        Py_ssize_t more = self->room ? self->room * 2 : 64;
        Name **larger = PyMem_Realloc(self->names, (size_t)more * sizeof(Name *));
        if (larger == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        self->names = larger;
        self->room = more;
    }
    self->names[self->count++] = name;
    return 0;
}

/* The members of a sequence with one value per name. 1, or -1 with an exception. */
static int
take_values(Header *self, Members *row, PyObject *values)
{
    Py_ssize_t count = PySequence_Fast_GET_SIZE(values);
    if (count != self->count) {
        PyErr_Format(PyExc_ValueError, "%zd values were expected, not %zd", self->count, count);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) /* nothing here runs Python, so the list cannot change */
        if (add_value(row, self->names[i], PySequence_Fast_GET_ITEM(values, i)) < 0)
            return -1;
    return 1;
}

static inline int
same_name(const Name *name, PyObject *text)
{
    if (name->text == text)
        return 1;
    return PyUnicode_CheckExact(text) && PyUnicode_Compare(name->text, text) == 0;
}

/* The members of a dict. Its names are mostly those of the previous dict at the same positions. 0 if there are too many
 * names. */
static int
take_dict(Header *self, Members *row, PyObject *dict)
{
    PyObject *text, *value;
    Py_ssize_t at = 0;
    for (Py_ssize_t i = 0; PyDict_Next(dict, &at, &text, &value); i++) {
        Name *name = i < self->count && same_name(self->names[i], text) ? self->names[i] : names_find(text);
        if (name == NULL && !PyUnicode_CheckExact(text)) {
            PyErr_SetString(PyExc_TypeError, "a name is a str");
            return -1;
        }
        if (name == NULL) {
            if (!names_room(MOST_NAMES))
                return 0;
            Py_INCREF(text); /* the encoder runs Python */
            Py_INCREF(value);
            name = name_of(text);
            Py_DECREF(text);
            if (name == NULL || add_value(row, name, value) < 0) {
                Py_DECREF(value);
                return -1;
            }
            Py_DECREF(value);
        }
        else if (add_value(row, name, value) < 0)
            return -1;
        if (i < self->count)
            self->names[i] = name;
        else if (add_name(self, name) < 0)
            return -1;
    }
    return 1;
}

/* header(values) */
static PyObject *
make_row(PyObject *callable, PyObject *const *arguments, size_t flags, PyObject *named)
{
    Header *self = (Header *)callable;
    if (PyVectorcall_NARGS(flags) != 1 || named != NULL)
        return PyErr_Format(PyExc_TypeError, "one argument was expected");
    PyObject *values = arguments[0];
    if (self->fixed ? !PyList_CheckExact(values) && !PyTuple_CheckExact(values) : !PyDict_CheckExact(values))
        return PyErr_Format(PyExc_TypeError, self->fixed ? "a list or tuple was expected" : "a dict was expected");
    Members *row = members_new(NULL);
    if (row == NULL)
        return NULL;
    int taken = self->fixed ? take_values(self, row, values) : take_dict(self, row, values);
    if (taken == 1)
        return (PyObject *)row;
    Py_DECREF(row);
    return taken < 0 ? NULL : Py_NewRef(values);
}

static void
dealloc(Header *self)
{
    PyMem_Free(self->names);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *
construct(PyTypeObject *type, PyObject *arguments, PyObject *named)
{
    PyObject *names = NULL;
    static char *keywords[] = {"names", NULL};
    if (!PyArg_ParseTupleAndKeywords(arguments, named, "|O!", keywords, &PyTuple_Type, &names))
        return NULL;
    Header *self = (Header *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->call = make_row;
    self->fixed = names != NULL;
    if (names == NULL)
        return (PyObject *)self;
    PyObject *different = PySet_New(names);
    int twice = different != NULL && PySet_GET_SIZE(different) < PyTuple_GET_SIZE(names);
    Py_XDECREF(different);
    if (twice)
        PyErr_SetString(PyExc_ValueError, "a name is given twice");
    for (Py_ssize_t i = 0; !PyErr_Occurred() && i < PyTuple_GET_SIZE(names); i++) {
        Name *name = name_of(PyTuple_GET_ITEM(names, i));
        if (name == NULL || add_name(self, name) < 0)
            break;
    }
    if (PyErr_Occurred())
        Py_CLEAR(self);
    return (PyObject *)self;
}

PyTypeObject Header_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "pipeline.native._native.Header",
    .tp_basicsize = sizeof(Header),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Header, call),
    .tp_call = PyVectorcall_Call,
    .tp_new = construct,
    .tp_dealloc = (destructor)dealloc,
};
