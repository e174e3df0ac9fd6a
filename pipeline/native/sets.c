/* Properties that a mapping sets for every event: all of them in one call. */

#include "native.h"

typedef struct {
    PyObject_HEAD
    PyObject *collided; /* called where the event has another value of the name */
    Name **names;
    Name **columns; /* of the row, which is copied; NULL for a value that is given */
    char *fills;    /* whether a value that the event has stays */
    Py_ssize_t count, given;
    vectorcallfunc call;
} Sets;

/* Copy a column of the row, unless it is missing or null; the warnings, of which it takes the reference. */
static PyObject *
copy_column(Sets *self, Py_ssize_t i, Members *properties, Members *row, PyObject *warnings)
{
    const Member *source = members_find_name(row, self->columns[i]);
    if (source == NULL || member_is_null(source))
        return warnings;
    if (members_find_name(properties, self->names[i]) == NULL) {
        if (members_share(properties, row, source, self->names[i]) < 0)
            Py_CLEAR(warnings);
        return warnings;
    }
    PyObject *value = member_value(source);
    PyObject *all[] = {self->names[i]->text, value, (PyObject *)properties, warnings};
    Py_SETREF(warnings, value == NULL ? NULL : PyObject_Vectorcall(self->collided, all, 4, NULL));
    Py_XDECREF(value);
    return warnings;
}

/* sets(properties, warnings, row, *values) */
static PyObject *
set_properties(PyObject *callable, PyObject *const *arguments, size_t flags, PyObject *named)
{
    Sets *self = (Sets *)callable;
    if (PyVectorcall_NARGS(flags) != self->given + 3 || named != NULL || !Members_Check(arguments[0]) ||
        !Members_Check(arguments[2]))
        return PyErr_Format(PyExc_TypeError, "Members, warnings, the row and %zd values were expected", self->given);
    Members *properties = (Members *)arguments[0], *row = (Members *)arguments[2];
    PyObject *const *next = arguments + 3;
    PyObject *warnings = Py_NewRef(arguments[1]);
    for (Py_ssize_t i = 0; i < self->count && warnings != NULL; i++) {
        if (self->columns[i] != NULL) {
            warnings = copy_column(self, i, properties, row, warnings);
            continue;
        }
        PyObject *value = *next++;
        if (value == Py_None)
            continue;
        Name *name = self->names[i];
        Member *member = members_find_name(properties, name);
        if (member != NULL) {
            if (self->fills[i] || member->value == value)
                continue;
            PyObject *all[] = {name->text, value, (PyObject *)properties, warnings};
            Py_SETREF(warnings, PyObject_Vectorcall(self->collided, all, 4, NULL));
            continue;
        }
        if ((member = members_add(properties)) == NULL) {
            Py_CLEAR(warnings);
            continue;
        }
        *member = (Member){.name = name};
        if (members_put(member, value) < 0) {
            members_remove(properties, member);
            Py_CLEAR(warnings);
        }
    }
    return warnings;
}

static PyObject *
construct(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    PyObject *names, *collided;
    static char *parameters[] = {"names", "collided", NULL};
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O!O", parameters, &PyTuple_Type, &names, &collided))
        return NULL;
    Sets *self = (Sets *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(names);
    self->call = set_properties;
    self->collided = Py_NewRef(collided);
    self->names = PyMem_Calloc((size_t)count + 1, sizeof(Name *));
    self->columns = PyMem_Calloc((size_t)count + 1, sizeof(Name *));
    self->fills = PyMem_Calloc((size_t)count + 1, 1);
    if (self->names == NULL || self->columns == NULL || self->fills == NULL) {
        PyErr_NoMemory();
        goto failed;
    }
    for (; self->count < count; self->count++) {
        PyObject *name, *column, *item = PyTuple_GET_ITEM(names, self->count);
        int fill;
        if (!PyTuple_Check(item)) {
            PyErr_SetString(PyExc_TypeError, "a set is a tuple: name, whether a value that is there stays, column or None");
            goto failed;
        }
        if (!PyArg_ParseTuple(item, "OpO", &name, &fill, &column) ||
            (self->names[self->count] = name_of(name)) == NULL ||
            (column != Py_None && (self->columns[self->count] = name_of(column)) == NULL))
            goto failed;
        self->given += column == Py_None;
        self->fills[self->count] = (char)fill;
    }
    return (PyObject *)self;
failed:
    Py_DECREF(self);
    return NULL;
}

static void
dealloc(Sets *self)
{
    Py_CLEAR(self->collided);
    PyMem_Free(self->names);
    PyMem_Free(self->columns);
    PyMem_Free(self->fills);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

PyTypeObject Sets_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "pipeline.native._native.Sets",
    .tp_basicsize = sizeof(Sets),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Sets, call),
    .tp_call = PyVectorcall_Call,
    .tp_new = construct,
    .tp_dealloc = (destructor)dealloc,
};
