/* Properties of which a mapping says that they are numbers: all of them in one call. */

#include "native.h"

typedef struct {
    PyObject_HEAD
    PyObject *slow; /* called for a value that is no ordinary number, nor a text of one */
    Name **names;
    Py_ssize_t count;
    vectorcallfunc call;
} Numbers;

/* Where a value has an ordinary number, itself or in a text, of this length; NULL where it has none. */
static const char *
digits_of(const Member *member, Py_ssize_t *length)
{
    const char *at = member->at;
    if (at != NULL) {
        int quoted = member->length >= 2 && *at == '"';
        at += quoted;
        *length = member->length - 2 * quoted;
    }
    else if (member->cell != NULL) {
        at = member->cell;
        *length = member->length;
    }
    else if (PyUnicode_CheckExact(member->value) && PyUnicode_IS_COMPACT_ASCII(member->value)) {
        at = (const char *)PyUnicode_1BYTE_DATA(member->value);
        *length = PyUnicode_GET_LENGTH(member->value);
    }
    return at != NULL && after_number(at, at + *length) == at + *length ? at : NULL;
}

/* Make a property a number; the warnings, of which it takes the reference, or NULL with an exception. */
static PyObject *
convert(Numbers *self, Name *name, Members *properties, PyObject *warnings)
{
    Py_ssize_t length = 0;
    Member *member = members_find_name(properties, name);
    if (member == NULL || member_is_null(member))
        return warnings;
    const char *at = digits_of(member, &length);
    if (at != NULL && at == member->at)
        return warnings; /* it is one */
    PyObject *value = at != NULL ? raw_of_text(at, length) : member_value(member);
    if (value != NULL && at != NULL) {
        if ((member = members_find_name(properties, name)) != NULL && members_put(member, value) < 0)
            Py_CLEAR(warnings);
    }
    else if (value != NULL) {
        PyObject *all[] = {name->text, value, (PyObject *)properties, warnings};
        Py_SETREF(warnings, PyObject_Vectorcall(self->slow, all, 4, NULL));
    }
    else
        Py_CLEAR(warnings);
    Py_XDECREF(value);
    return warnings;
}

/* numbers(properties, warnings) */
static PyObject *
convert_all(PyObject *callable, PyObject *const *arguments, size_t flags, PyObject *named)
{
    Numbers *self = (Numbers *)callable;
    if (PyVectorcall_NARGS(flags) != 2 || named != NULL || !Members_Check(arguments[0]))
        return PyErr_Format(PyExc_TypeError, "Members and warnings were expected");
    PyObject *warnings = Py_NewRef(arguments[1]);
    for (Py_ssize_t i = 0; i < self->count && warnings != NULL; i++)
        warnings = convert(self, self->names[i], (Members *)arguments[0], warnings);
    return warnings;
}

static PyObject *
construct(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    PyObject *names, *slow;
    static char *parameters[] = {"names", "slow", NULL};
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O!O", parameters, &PyTuple_Type, &names, &slow))
        return NULL;
    Numbers *self = (Numbers *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->call = convert_all;
    self->slow = Py_NewRef(slow);
    self->names = PyMem_Calloc((size_t)PyTuple_GET_SIZE(names) + 1, sizeof(Name *));
    if (self->names == NULL)
        PyErr_NoMemory();
    for (; !PyErr_Occurred() && self->count < PyTuple_GET_SIZE(names); self->count++)
        self->names[self->count] = name_of(PyTuple_GET_ITEM(names, self->count));
    if (PyErr_Occurred())
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void
dealloc(Numbers *self)
{
    Py_CLEAR(self->slow);
    PyMem_Free(self->names);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

PyTypeObject Numbers_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "pipeline.native._native.Numbers",
    .tp_basicsize = sizeof(Numbers),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Numbers, call),
    .tp_call = PyVectorcall_Call,
    .tp_new = construct,
    .tp_dealloc = (destructor)dealloc,
};
