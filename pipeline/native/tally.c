/* Counts the rows that have each name, as a member of the row (level 0) or of an opened member (level 1), by what
 * became of the row: a number that the caller chooses, 0 unless it says otherwise. */

#include "native.h"

#define LEVELS 2
#define MOST_OUTCOMES (1 << 16)
#define EXAMPLES 3 /* rows with a name, of those since the last take(), that are shown to `show` */

typedef struct {
    int64_t *rows[LEVELS]; /* by the number of the name */
    Py_ssize_t room[LEVELS];
} Counts;

typedef struct {
    PyObject_HEAD
    PyObject *show; /* called with a row that has a name of which fewer than EXAMPLES rows were shown; or NULL */
    Counts *outcomes;
    Py_ssize_t outcome_count;
    Name **names; /* by number */
    unsigned char *shown[LEVELS];
    Py_ssize_t names_room;
    uint32_t *last; /* the names of the latest row: numbers, with the level in the lowest bit */
    Py_ssize_t last_used, last_room;
    vectorcallfunc call;
} Tally;

static int
grow(void **array, Py_ssize_t *room, Py_ssize_t more, size_t size)
{
    void *larger = PyMem_Realloc(*array, (size_t)more * size);
    if (larger == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    memset((char *)larger + (size_t)*room * size, 0, (size_t)(more - *room) * size);
    *array = larger;
    *room = more;
    return 0;
}

static int
know_name(Tally *self, Name *name)
{
    if (name->number >= self->names_room) {
        Py_ssize_t more = name->number + 256, room;
        for (int level = 0; level < LEVELS; level++) {
            room = self->names_room;
            if (grow((void **)&self->shown[level], &room, more, 1) < 0)
                return -1;
        }
        if (grow((void **)&self->names, &self->names_room, more, sizeof(Name *)) < 0)
            return -1;
    }
    self->names[name->number] = name;
    return 0;
}

static int
add(Tally *self, Py_ssize_t outcome, uint32_t entry, int64_t rows)
{
    Counts *counts = &self->outcomes[outcome];
    int level = entry & 1;
    Py_ssize_t number = entry >> 1;
    if (number >= counts->room[level] &&
        grow((void **)&counts->rows[level], &counts->room[level], number + 256, sizeof(int64_t)) < 0)
        return -1;
    counts->rows[level][number] += rows;
    return 0;
}

/* Count the members; 1 where one of them is to be shown. */
static int
count_members(Tally *self, const Members *members, int level)
{
    int show = 0;
    for (Py_ssize_t i = 0; i < members->used; i++) {
        const Member *member = &members->members[i];
        if (member->name == NULL)
            continue;
        Py_ssize_t number = member->name->number;
        if ((number >= self->names_room || self->names[number] == NULL) && know_name(self, member->name) < 0)
            return -1;
        if (self->last_used == self->last_room &&
            grow((void **)&self->last, &self->last_room, self->last_room + 256, sizeof(uint32_t)) < 0)
            return -1;
        uint32_t entry = (uint32_t)number << 1 | (uint32_t)level;
        self->last[self->last_used++] = entry;
        if (add(self, 0, entry, 1) < 0)
            return -1;
        if (self->shown[level][number] < EXAMPLES) {
            self->shown[level][number]++;
            show = 1;
        }
        if (level + 1 < LEVELS && member->value != NULL && Members_Check(member->value)) {
            int inner = count_members(self, (const Members *)member->value, level + 1);
            if (inner < 0)
                return -1;
            show |= inner;
        }
    }
    return show;
}

/* tally(row) */
static PyObject *
count_row(PyObject *callable, PyObject *const *arguments, size_t flags, PyObject *named)
{
    Tally *self = (Tally *)callable;
    if (PyVectorcall_NARGS(flags) != 1 || named != NULL || !Members_Check(arguments[0]))
        return PyErr_Format(PyExc_TypeError, "Members were expected");
    self->last_used = 0;
    int show = count_members(self, (const Members *)arguments[0], 0);
    if (show < 0)
        return NULL;
    if (show && self->show != NULL)
        return PyObject_CallOneArg(self->show, arguments[0]);
    Py_RETURN_NONE;
}

/* settle(outcome): count the latest row under another outcome than 0. */
static PyObject *
settle(Tally *self, PyObject *number)
{
    Py_ssize_t outcome = PyLong_AsSsize_t(number);
    if (outcome == -1 && PyErr_Occurred())
        return NULL;
    if (outcome < 0 || outcome >= MOST_OUTCOMES)
        return PyErr_Format(PyExc_ValueError, "an outcome from 0 to %d was expected", MOST_OUTCOMES - 1);
    if (outcome >= self->outcome_count &&
        grow((void **)&self->outcomes, &self->outcome_count, outcome + 8, sizeof(Counts)) < 0)
        return NULL;
    for (Py_ssize_t i = 0; i < self->last_used; i++)
        if (add(self, 0, self->last[i], -1) < 0 || add(self, outcome, self->last[i], 1) < 0)
            return NULL;
    self->last_used = 0;
    Py_RETURN_NONE;
}

/* take(): (outcome, level, name, rows) of each name, counted since the previous call. */
static PyObject *
take(Tally *self, PyObject *Py_UNUSED(ignored))
{
    PyObject *list = PyList_New(0);
    for (Py_ssize_t outcome = 0; list != NULL && outcome < self->outcome_count; outcome++)
        for (int level = 0; list != NULL && level < LEVELS; level++) {
            Counts *counts = &self->outcomes[outcome];
            for (Py_ssize_t i = 0; list != NULL && i < counts->room[level]; i++) {
                if (counts->rows[level][i] == 0)
                    continue;
                PyObject *count = Py_BuildValue("(niOL)", outcome, level, self->names[i]->text,
                                                (long long)counts->rows[level][i]);
                if (count == NULL || PyList_Append(list, count) < 0)
                    Py_CLEAR(list);
                Py_XDECREF(count);
                counts->rows[level][i] = 0;
            }
        }
    for (int level = 0; level < LEVELS; level++)
        if (self->names_room)
            memset(self->shown[level], 0, (size_t)self->names_room);
    self->last_used = 0;
    return list;
}

static PyObject *
construct(PyTypeObject *type, PyObject *arguments, PyObject *named)
{
    PyObject *show = NULL;
    static char *keywords[] = {"show", NULL};
    if (!PyArg_ParseTupleAndKeywords(arguments, named, "|O", keywords, &show))
        return NULL;
    Tally *self = (Tally *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->call = count_row;
    self->show = show == Py_None ? NULL : Py_XNewRef(show);
    if (grow((void **)&self->outcomes, &self->outcome_count, 8, sizeof(Counts)) < 0)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void
dealloc(Tally *self)
{
    for (Py_ssize_t outcome = 0; outcome < self->outcome_count; outcome++)
        for (int level = 0; level < LEVELS; level++)
            PyMem_Free(self->outcomes[outcome].rows[level]);
    PyMem_Free(self->outcomes);
    PyMem_Free(self->names);
    for (int level = 0; level < LEVELS; level++)
        PyMem_Free(self->shown[level]);
    PyMem_Free(self->last);
    Py_CLEAR(self->show);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMethodDef methods[] = {
    {"settle", (PyCFunction)settle, METH_O, NULL},
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
