/* Counts the rows that have each name, as a member of the row (level 0), of an opened member (level 1) or of an object
 * inside them (from 2), by what became of the row: a number that the caller chooses, 0 unless it says otherwise. */

#include "native.h"

#define MOST_LEVELS 64
#define MOST_OUTCOMES (1 << 16)
#define EXAMPLES 3 /* rows with a name, of those since the last take(), that are shown to `show` */

typedef struct {
    int64_t *rows; /* by the number of the name */
    Py_ssize_t room;
} Counts; /* of one outcome and level */

/* An object inside a row. */
typedef struct {
    int parent; /* the number of the object that it is in; the row is 0, its opened member 1, `inner` begin with 2 */
    int level;  /* of its names, or 0 where they are not counted */
    Name *name;
    PyObject *opener;
    PyObject *found; /* in this row: its Members, or NULL */
} Inner;

typedef struct {
    PyObject_HEAD
    PyObject *show; /* called with a row that has a name of which fewer than EXAMPLES rows were shown; or NULL */
    PyObject *members_of; /* called for an object that is not plain, returns a dict */
    PyObject *names_of_dicts; /* a Header */
    int levels;
    Inner inner[2 * MOST_LEVELS];
    int inner_count;
    Counts *outcomes; /* `levels` of each */
    Py_ssize_t outcome_count;
    Name **names; /* by number */
    unsigned char *shown[MOST_LEVELS];
    Py_ssize_t names_room;
    uint32_t *last; /* the names of the latest row: number * MOST_LEVELS + level */
    Py_ssize_t last_used, last_room;
    Py_ssize_t *items; /* where in `last` each item of the latest row begins; none where it is a row of its own */
    Py_ssize_t item_count, item_room;
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
        for (int level = 0; level < self->levels; level++) {
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
add(Tally *self, Py_ssize_t outcome, uint32_t entry)
{
    Counts *counts = &self->outcomes[outcome * self->levels + entry % MOST_LEVELS];
    Py_ssize_t number = entry / MOST_LEVELS;
    if (number >= counts->room && grow((void **)&counts->rows, &counts->room, number + 256, sizeof(int64_t)) < 0)
        return -1;
    counts->rows[number]++;
    return 0;
}

/* Count some of the names of the latest row under an outcome. */
static int
add_latest(Tally *self, Py_ssize_t from, Py_ssize_t end, Py_ssize_t outcome)
{
    for (Py_ssize_t i = from; i < end; i++)
        if (add(self, outcome, self->last[i]) < 0)
            return -1;
    return 0;
}

/* Count the latest row, of which no outcome was given, under 0. */
static int
end_row(Tally *self)
{
    int failed = add_latest(self, 0, self->last_used, 0);
    self->last_used = self->item_count = 0;
    return failed;
}

/* Note the members; 1 where one of them is to be shown. */
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
        uint32_t entry = (uint32_t)number * MOST_LEVELS + (uint32_t)level;
        self->last[self->last_used++] = entry;
        if (self->shown[level][number] < EXAMPLES) {
            self->shown[level][number]++;
            show = 1;
        }
        if (level == 0 && member->value != NULL && Members_Check(member->value)) {
            int inner = count_members(self, (const Members *)member->value, 1);
            if (inner < 0)
                return -1;
            show |= inner;
        }
    }
    return show;
}

/* The Members of an object that Python has to open, or NULL: without an exception where it has too many names. */
static PyObject *
open_slowly(Tally *self, const Member *member)
{
    PyObject *value = member_value(member);
    PyObject *dict = value == NULL ? NULL : PyObject_CallOneArg(self->members_of, value);
    PyObject *object = dict == NULL ? NULL : PyObject_CallOneArg(self->names_of_dicts, dict);
    Py_XDECREF(value);
    Py_XDECREF(dict);
    if (object != NULL && !Members_Check(object))
        Py_CLEAR(object);
    return object;
}

/* Count the members of the objects inside a row; 1 where one of them is to be shown. */
static int
count_inner(Tally *self, Members *row, Members *opened)
{
    int show = 0;
    for (Py_ssize_t i = 0; opened == NULL && i < row->used; i++)
        if (row->members[i].value != NULL && Members_Check(row->members[i].value))
            opened = (Members *)row->members[i].value;
    for (int i = 0; i < self->inner_count && show >= 0; i++) {
        Inner *inner = &self->inner[i];
        Members *parent = inner->parent == 0   ? row
                          : inner->parent == 1 ? opened
                                               : (Members *)self->inner[inner->parent - 2].found;
        const Member *member = parent == NULL ? NULL : members_find_name(parent, inner->name);
        if (member == NULL)
            continue;
        inner->found = open_member(inner->opener, member, parent->owner);
        if (inner->found == NULL && !PyErr_Occurred())
            inner->found = open_slowly(self, member);
        int found = inner->found == NULL      ? PyErr_Occurred() ? -1 : 0
                    : inner->level == 0       ? 0
                                              : count_members(self, (const Members *)inner->found, inner->level);
        show = found < 0 ? -1 : show | found;
    }
    for (int i = 0; i < self->inner_count; i++)
        Py_CLEAR(self->inner[i].found);
    return show;
}

/* tally(row), tally(row, opened) */
static PyObject *
count_row(PyObject *callable, PyObject *const *arguments, size_t flags, PyObject *named)
{
    Tally *self = (Tally *)callable;
    Py_ssize_t count = PyVectorcall_NARGS(flags);
    if (count < 1 || count > 2 || named != NULL)
        return PyErr_Format(PyExc_TypeError, "one or two Members were expected");
    if (self->item_count == 0 && end_row(self) < 0)
        return NULL;
    int show = 0;
    for (int level = 0; level < count; level++) {
        if (!Members_Check(arguments[level]))
            return PyErr_Format(PyExc_TypeError, "Members were expected");
        int found = count_members(self, (const Members *)arguments[level], level);
        if (found < 0)
            return NULL;
        show |= found;
    }
    if (self->inner_count) {
        int found = count_inner(self, (Members *)arguments[0], count == 2 ? (Members *)arguments[1] : NULL);
        if (found < 0)
            return NULL;
        show |= found;
    }
    if (show && self->show != NULL)
        return PyObject_Vectorcall(self->show, arguments, (size_t)count, NULL);
    Py_RETURN_NONE;
}

/* The number of an outcome, for which there is room; -1 with an exception. */
static Py_ssize_t
outcome_of(Tally *self, PyObject *number)
{
    Py_ssize_t outcome = PyLong_AsSsize_t(number);
    if (outcome == -1 && PyErr_Occurred())
        return -1;
    if (outcome < 0 || outcome >= MOST_OUTCOMES) {
        PyErr_Format(PyExc_ValueError, "an outcome from 0 to %d was expected", MOST_OUTCOMES - 1);
        return -1;
    }
    if (outcome >= self->outcome_count &&
        grow((void **)&self->outcomes, &self->outcome_count, outcome + 8, sizeof(Counts) * (size_t)self->levels) < 0)
        return -1;
    return outcome;
}

/* settle(outcome): count the latest row under an outcome, or of its items the first, and the others not at all. */
static PyObject *
settle(Tally *self, PyObject *number)
{
    Py_ssize_t outcome = outcome_of(self, number);
    Py_ssize_t first = self->item_count > 1 ? self->items[1] : self->last_used;
    if (outcome < 0 || add_latest(self, 0, first, outcome) < 0)
        return NULL;
    self->last_used = self->item_count = 0;
    Py_RETURN_NONE;
}

static PyObject *
begin_item(Tally *self, PyObject *Py_UNUSED(ignored))
{
    if (self->item_count == self->item_room &&
        grow((void **)&self->items, &self->item_room, self->item_room + 256, sizeof(Py_ssize_t)) < 0)
        return NULL;
    if (self->item_count == 0 && end_row(self) < 0)
        return NULL;
    self->items[self->item_count++] = self->last_used;
    Py_RETURN_NONE;
}

/* settle_items(outcomes): count each item of the latest row under an outcome. */
static PyObject *
settle_items(Tally *self, PyObject *outcomes)
{
    if (!PyList_Check(outcomes) || PyList_GET_SIZE(outcomes) != self->item_count)
        return PyErr_Format(PyExc_ValueError, "a list of %zd outcomes was expected", self->item_count);
    for (Py_ssize_t i = 0; i < self->item_count; i++) {
        Py_ssize_t end = i + 1 < self->item_count ? self->items[i + 1] : self->last_used;
        Py_ssize_t outcome = outcome_of(self, PyList_GET_ITEM(outcomes, i));
        if (outcome < 0 || add_latest(self, self->items[i], end, outcome) < 0)
            return NULL;
    }
    self->last_used = self->item_count = 0;
    Py_RETURN_NONE;
}

/* take(): (outcome, level, name, rows) of each name, counted since the previous call. */
static PyObject *
take(Tally *self, PyObject *Py_UNUSED(ignored))
{
    PyObject *list = end_row(self) < 0 ? NULL : PyList_New(0);
    for (Py_ssize_t outcome = 0; list != NULL && outcome < self->outcome_count; outcome++)
        for (int level = 0; list != NULL && level < self->levels; level++) {
            Counts *counts = &self->outcomes[outcome * self->levels + level];
            for (Py_ssize_t i = 0; list != NULL && i < counts->room; i++) {
                if (counts->rows[i] == 0)
                    continue;
                PyObject *count =
                    Py_BuildValue("(niOL)", outcome, level, self->names[i]->text, (long long)counts->rows[i]);
                if (count == NULL || PyList_Append(list, count) < 0)
                    Py_CLEAR(list);
                Py_XDECREF(count);
                counts->rows[i] = 0;
            }
        }
    for (int level = 0; level < self->levels; level++)
        if (self->names_room)
            memset(self->shown[level], 0, (size_t)self->names_room);
    return list;
}

/* The number of an object inside an object, which is added where it is new. -1 with an exception. */
static int
add_inner(Tally *self, int parent, PyObject *step, PyObject *opener_type)
{
    Name *name = name_of(step);
    if (name == NULL)
        return -1;
    for (int i = 0; i < self->inner_count; i++)
        if (self->inner[i].parent == parent && self->inner[i].name == name)
            return i + 2;
    if (self->inner_count == 2 * MOST_LEVELS) {
        PyErr_SetString(PyExc_ValueError, "too many objects");
        return -1;
    }
    PyObject *opener = PyObject_CallOneArg(opener_type, Py_True); /* nothing here changes what it opens */
    if (opener == NULL)
        return -1;
    self->inner[self->inner_count++] = (Inner){parent, 0, name, opener, NULL};
    return self->inner_count + 1;
}

static int
add_level(Tally *self, PyObject *level, PyObject *opener_type)
{
    int opened;
    PyObject *steps;
    if (!PyTuple_Check(level)) {
        PyErr_SetString(PyExc_TypeError, "a level is a tuple: whether it is inside the opened member, the names");
        return -1;
    }
    if (!PyArg_ParseTuple(level, "pO!", &opened, &PyTuple_Type, &steps))
        return -1;
    int number = opened;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(steps); i++)
        if ((number = add_inner(self, number, PyTuple_GET_ITEM(steps, i), opener_type)) < 0)
            return -1;
    if (number < 2 || self->inner[number - 2].level) {
        PyErr_SetString(PyExc_ValueError, "a level without names, or twice");
        return -1;
    }
    self->inner[number - 2].level = self->levels++;
    return 0;
}

static PyObject *
construct(PyTypeObject *type, PyObject *arguments, PyObject *named)
{
    PyObject *show = NULL, *levels = NULL, *members_of = NULL;
    static char *keywords[] = {"show", "levels", "members_of", NULL};
    if (!PyArg_ParseTupleAndKeywords(arguments, named, "|OO!O", keywords, &show, &PyTuple_Type, &levels, &members_of))
        return NULL;
    Py_ssize_t more = levels == NULL ? 0 : PyTuple_GET_SIZE(levels);
    if (more > MOST_LEVELS - 2 || (more && members_of == NULL))
        return PyErr_Format(PyExc_ValueError, "at most %d levels, with `members_of`, were expected", MOST_LEVELS - 2);
    Tally *self = (Tally *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->call = count_row;
    self->show = show == Py_None ? NULL : Py_XNewRef(show);
    self->members_of = Py_XNewRef(members_of);
    self->levels = 2;
    if ((self->names_of_dicts = header_of_dicts()) == NULL)
        Py_CLEAR(self);
    for (Py_ssize_t i = 0; self != NULL && i < more; i++)
        if (add_level(self, PyTuple_GET_ITEM(levels, i), (PyObject *)&Opener_Type) < 0)
            Py_CLEAR(self);
    if (self != NULL &&
        grow((void **)&self->outcomes, &self->outcome_count, 8, sizeof(Counts) * (size_t)self->levels) < 0)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void
dealloc(Tally *self)
{
    for (Py_ssize_t i = 0; i < self->outcome_count * self->levels; i++)
        PyMem_Free(self->outcomes[i].rows);
    PyMem_Free(self->outcomes);
    PyMem_Free(self->names);
    for (int level = 0; level < self->levels; level++)
        PyMem_Free(self->shown[level]);
    PyMem_Free(self->last);
    PyMem_Free(self->items);
    for (int i = 0; i < self->inner_count; i++)
        Py_CLEAR(self->inner[i].opener);
    Py_CLEAR(self->show);
    Py_CLEAR(self->members_of);
    Py_CLEAR(self->names_of_dicts);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMethodDef methods[] = {
    {"settle", (PyCFunction)settle, METH_O, NULL},
    {"begin_item", (PyCFunction)begin_item, METH_NOARGS, NULL},
    {"settle_items", (PyCFunction)settle_items, METH_O, NULL},
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
