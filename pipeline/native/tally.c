/* Counts the rows that have each name, as a member of the row (level 0) or of an opened member (level 1). */

#include "native.h"

#define LEVELS 2

typedef struct {
    Name *name;
    int64_t rows;
} Count;

typedef struct {
    PyObject_HEAD
    Count *counts[LEVELS]; /* by the number of the name */
    Py_ssize_t room[LEVELS];
    vectorcallfunc call;
} Tally;

static int
count_members(Tally *self, const Members *members, int level)
{
    for (Py_ssize_t i = 0; i < members->used; i++) {
        const Member *member = &members->members[i];
        if (member->name == NULL)
            continue;
        Py_ssize_t number = member->name->number;
        if (number >= self->room[level]) {
            Py_ssize_t more = number + 256;
            Count *larger = PyMem_Realloc(self->counts[level], (size_t)more * sizeof(Count));
            if (larger == NULL) {
                PyErr_NoMemory();
                return -1;
            }
            memset(larger + self->room[level], 0, (size_t)(more - self->room[level]) * sizeof(Count));
            self->counts[level] = larger;
            self->room[level] = more;
        }
        self->counts[level][number].name = member->name;
        self->counts[level][number].rows++;
        if (level + 1 < LEVELS && member->value != NULL && Members_Check(member->value) &&
            count_members(self, (const Members *)member->value, level + 1) < 0)
            return -1;
    }
    return 0;
}

/* tally(row) */
static PyObject *
count_row(PyObject *callable, PyObject *const *arguments, size_t flags, PyObject *named)
{
    if (PyVectorcall_NARGS(flags) != 1 || named != NULL || !Members_Check(arguments[0]))
        return PyErr_Format(PyExc_TypeError, "Members were expected");
    if (count_members((Tally *)callable, (const Members *)arguments[0], 0) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* take(): (level, name, rows) of each name, counted since the previous call. */
static PyObject *
take(Tally *self, PyObject *Py_UNUSED(ignored))
{
    PyObject *list = PyList_New(0);
    for (int level = 0; list != NULL && level < LEVELS; level++)
        for (Py_ssize_t i = 0; list != NULL && i < self->room[level]; i++) {
            Count *entry = &self->counts[level][i];
            if (entry->rows == 0)
                continue;
            PyObject *count = Py_BuildValue("(iOL)", level, entry->name->text, (long long)entry->rows);
            if (count == NULL || PyList_Append(list, count) < 0)
                Py_CLEAR(list);
            Py_XDECREF(count);
            entry->rows = 0;
        }
    return list;
}

static PyObject *
construct(PyTypeObject *type, PyObject *arguments, PyObject *named)
{
    static char *keywords[] = {NULL};
    if (!PyArg_ParseTupleAndKeywords(arguments, named, "", keywords))
        return NULL;
    Tally *self = (Tally *)type->tp_alloc(type, 0);
    if (self != NULL)
        self->call = count_row;
    return (PyObject *)self;
}

static void
dealloc(Tally *self)
{
    for (int level = 0; level < LEVELS; level++)
        PyMem_Free(self->counts[level]);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMethodDef methods[] = {
    {"take", (PyCFunction)take, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

PyTypeObject Tally_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "pipeline.native._native.Tally",
    .tp_basicsize = sizeof(Tally),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Tally, call),
    .tp_call = PyVectorcall_Call,
    .tp_new = construct,
    .tp_dealloc = (destructor)dealloc,
    .tp_methods = methods,
};
