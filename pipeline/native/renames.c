/* What becomes of properties by their names alone: left out, renamed, or kept under another beginning. */

#include "native.h"

#define NONE 1 /* an answer: nothing becomes of this name; n + 2 is the n-th change */
#define WATCHED 0x80000000u /* beside it: a name that has to be looked at before */
#define MOST 0x40000000     /* changes, or columns that are remembered: so that an answer holds their number */
#define AT_ONCE 64

/* --- renames and drops ----------------------------------------------------------------------------------- */

typedef struct {
    Name *old;
    Name *new; /* NULL: left out */
    int first; /* taken out before any other change */
} Change;

typedef struct {
    PyObject_HEAD
    Change *changes;
    Py_ssize_t count;
    PyObject *table; /* dict: old name -> number of the change */
    PyObject *collided; /* called when a row has both names */
    PyObject *watched;  /* frozenset of names */
    PyObject *on_watched; /* called before all changes when the row has one of the watched */
    Answers answers;
    vectorcallfunc call;
} Renames;

/* The answer for a name; 0 with an exception. */
static uint32_t
change_of(Renames *self, const Name *name)
{
    uint32_t *answer = answer_of(&self->answers, name);
    if (answer == NULL)
        return 0;
    if (*answer == 0) {
        PyObject *number = PyDict_GetItemWithError(self->table, name->text);
        uint32_t found = number == NULL ? NONE : (uint32_t)PyLong_AsLong(number) + 2;
        int watched = number == NULL && PyErr_Occurred() ? -1 : PySet_Contains(self->watched, name->text);
        if (watched < 0)
            return 0;
        *answer = found | (watched ? WATCHED : 0);
    }
    return *answer;
}

/* What one call works with. Python that it calls may change the members at will, so nothing is held by a pointer into
 * them, and there is room for as many as were looked at. */
typedef struct {
    Py_ssize_t *found; /* the changes for members that are there, in order */
    Member *taken;     /* what each takes out */
    Py_ssize_t count, room;
    int watched;
    Py_ssize_t found_here[AT_ONCE];
    Member taken_here[AT_ONCE];
} Changing;

static int
make_room(Changing *work, Py_ssize_t room)
{
    if (room <= work->room)
        return 0;
    Py_ssize_t *found = PyMem_Malloc((size_t)room * sizeof(Py_ssize_t));
    Member *taken = PyMem_Malloc((size_t)room * sizeof(Member));
    if (found == NULL || taken == NULL) {
        PyMem_Free(found);
        PyMem_Free(taken);
        PyErr_NoMemory();
        return -1;
    }
    if (work->found != work->found_here) {
        PyMem_Free(work->found);
        PyMem_Free(work->taken);
    }
    work->found = found;
    work->taken = taken;
    work->room = room;
    return 0;
}

/* Look which changes there are to make. -1 with an exception. */
static int
find_changes(Renames *self, const Members *members, Changing *work)
{
    work->count = 0;
    work->watched = 0;
    for (Py_ssize_t i = 0; i < members->used; i++) {
        const Name *name = members->members[i].name;
        if (name == NULL)
            continue;
        uint32_t answer = change_of(self, name);
        if (answer == 0)
            return -1;
        work->watched |= (answer & WATCHED) != 0;
        answer &= ~WATCHED;
        if (answer == NONE)
            continue;
        if (work->count == work->room) {
            PyErr_SetString(PyExc_RuntimeError, "the members changed while they were renamed");
            return -1;
        }
        Py_ssize_t place = work->count++, number = (Py_ssize_t)answer - 2;
        for (; place > 0 && work->found[place - 1] > number; place--)
            work->found[place] = work->found[place - 1];
        work->found[place] = number;
    }
    return 0;
}

/* Take a member out, with its value; what has no name was not there. */
static Member
take(Members *members, const Name *name)
{
    Member *one = members_find_name(members, name), taken = {NULL, NULL, NULL, 0};
    if (one != NULL) {
        taken = *one;
        *one = (Member){NULL, NULL, NULL, 0};
        members->live--;
    }
    return taken;
}

static PyObject *
collide(Renames *self, Members *members, const Change *change, const Member *taken, PyObject *warnings)
{
    PyObject *value = member_value(taken);
    if (value == NULL)
        return NULL;
    PyObject *all[] = {change->old->text, change->new->text, value, (PyObject *)members, warnings};
    PyObject *more = PyObject_Vectorcall(self->collided, all, 5, NULL);
    Py_DECREF(value);
    return more;
}

static PyObject *
rename_members(PyObject *callable, PyObject *const *given, size_t flags, PyObject *named)
{
    Renames *self = (Renames *)callable;
    if (PyVectorcall_NARGS(flags) != 2 || named != NULL || !Members_Check(given[0])) {
        PyErr_SetString(PyExc_TypeError, "Members and warnings were expected");
        return NULL;
    }
    Members *members = (Members *)given[0];
    Changing work; /* its arrays are filled as they are needed */
    work.room = AT_ONCE;
    work.found = work.found_here;
    work.taken = work.taken_here;
    PyObject *warnings = Py_NewRef(given[1]);
    Py_ssize_t taken = 0;
    if (make_room(&work, members->used) < 0 || find_changes(self, members, &work) < 0)
        goto failed;
    if (work.watched) {
        Py_SETREF(warnings, PyObject_CallFunctionObjArgs(self->on_watched, members, warnings, NULL));
        if (warnings == NULL || make_room(&work, members->used) < 0 || find_changes(self, members, &work) < 0)
            goto failed;
    }
    for (; taken < work.count; taken++) {
        const Change *change = &self->changes[work.found[taken]];
        work.taken[taken] = change->first ? take(members, change->old) : (Member){NULL, NULL, NULL, 0};
    }
    for (Py_ssize_t i = 0; i < work.count; i++) {
        const Change *change = &self->changes[work.found[i]];
        Member *out = &work.taken[i];
        if (!change->first)
            *out = take(members, change->old);
        if (out->name == NULL || change->new == NULL)
            continue;
        if (members_find_name(members, change->new) != NULL) {
            Py_SETREF(warnings, collide(self, members, change, out, warnings));
            if (warnings == NULL)
                goto failed;
            continue;
        }
        Member *one = members_add(members);
        if (one == NULL)
            goto failed;
        *one = (Member){change->new, out->value, out->at, out->length};
        out->value = NULL;
    }
    goto end;
failed:
    Py_CLEAR(warnings);
end:
    for (Py_ssize_t i = 0; i < taken; i++)
        Py_XDECREF(work.taken[i].value);
    if (work.found != work.found_here) {
        PyMem_Free(work.found);
        PyMem_Free(work.taken);
    }
    return warnings;
}

static PyObject *
construct_renames(PyTypeObject *type, PyObject *given, PyObject *named)
{
    PyObject *changes, *collided, *watched, *on_watched;
    static char *words[] = {"changes", "collided", "watched", "on_watched", NULL};
    if (!PyArg_ParseTupleAndKeywords(given, named, "O!OO!O", words, &PyTuple_Type, &changes, &collided,
                                     &PyFrozenSet_Type, &watched, &on_watched))
        return NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(changes);
    if (count > MOST)
        return PyErr_Format(PyExc_ValueError, "too many changes");
    Renames *self = (Renames *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->call = rename_members;
    self->collided = Py_NewRef(collided);
    self->watched = names_only(watched);
    self->on_watched = Py_NewRef(on_watched);
    self->table = PyDict_New();
    self->changes = PyMem_Calloc((size_t)count + 1, sizeof(Change));
    if (self->watched == NULL || self->table == NULL || self->changes == NULL)
        goto failed;
    for (; self->count < count; self->count++) {
        PyObject *old, *new, *given_change = PyTuple_GET_ITEM(changes, self->count);
        int first;
        if (!PyTuple_Check(given_change)) {
            PyErr_SetString(PyExc_TypeError, "a change is a tuple: the old name, the new one or None, first");
            goto failed;
        }
        if (!PyArg_ParseTuple(given_change, "OOp", &old, &new, &first))
            goto failed;
        Change *change = &self->changes[self->count];
        change->old = name_of(old);
        change->new = new == Py_None ? NULL : name_of(new);
        change->first = first;
        PyObject *number = PyLong_FromSsize_t(self->count);
        if (change->old == NULL || PyErr_Occurred() || number == NULL || PyDict_SetItem(self->table, old, number) < 0) {
            Py_XDECREF(number);
            goto failed;
        }
        Py_DECREF(number);
    }
    return (PyObject *)self;
failed:
    Py_DECREF(self);
    return NULL;
}

static void
dealloc_renames(Renames *self)
{
    Py_CLEAR(self->table);
    Py_CLEAR(self->collided);
    Py_CLEAR(self->watched);
    Py_CLEAR(self->on_watched);
    PyMem_Free(self->changes);
    PyMem_Free(self->answers.known);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

PyTypeObject Renames_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "pipeline.native._native.Renames",
    .tp_basicsize = sizeof(Renames),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Renames, call),
    .tp_call = PyVectorcall_Call,
    .tp_new = construct_renames,
    .tp_dealloc = (destructor)dealloc_renames,
};

/* --- columns that become properties ---------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    PyObject *named; /* frozenset of columns that the mapping names */
    PyObject *prefix;
    Name **becomes;
    Py_ssize_t count, room;
    Answers answers;
    vectorcallfunc call;
} Columns;

/* The property that a column becomes, NULL for none; an exception may be set. */
static Name *
becomes(Columns *self, const Name *column)
{
    uint32_t *answer = answer_of(&self->answers, column);
    if (answer == NULL)
        return NULL;
    if (*answer > NONE)
        return self->becomes[*answer - 2];
    if (*answer == NONE)
        return NULL;
    int named = PySet_Contains(self->named, column->text);
    if (named < 0)
        return NULL;
    if (named) {
        *answer = NONE;
        return NULL;
    }
    PyObject *text = PyUnicode_Concat(self->prefix, column->text);
    Name *found = text == NULL ? NULL : name_of(text);
    Py_XDECREF(text);
    if (found == NULL || self->count >= MOST)
        return found;
    if (self->count == self->room) {
        Py_ssize_t more = self->room ? self->room * 2 : 64;
        Name **larger = PyMem_Realloc(self->becomes, (size_t)more * sizeof(Name *));
        if (larger == NULL)
            return (Name *)PyErr_NoMemory();
        self->becomes = larger;
        self->room = more;
    }
    self->becomes[self->count] = found;
    *answer = (uint32_t)(self->count++ + 2);
    return found;
}

static PyObject *
keep_columns(PyObject *callable, PyObject *const *given, size_t flags, PyObject *named)
{
    Columns *self = (Columns *)callable;
    if (PyVectorcall_NARGS(flags) != 2 || named != NULL || !Members_Check(given[0]) || !Members_Check(given[1])) {
        PyErr_SetString(PyExc_TypeError, "the row's and the event's Members were expected");
        return NULL;
    }
    Members *row = (Members *)given[0], *properties = (Members *)given[1];
    if (row == properties) {
        PyErr_SetString(PyExc_ValueError, "the row's and the event's Members are the same");
        return NULL;
    }
    for (Py_ssize_t i = 0; i < row->used; i++) {
        if (row->members[i].name == NULL || member_is_null(&row->members[i]))
            continue;
        Name *name = becomes(self, row->members[i].name);
        if (name == NULL) {
            if (PyErr_Occurred())
                return NULL;
            continue;
        }
        if (members_find_name(properties, name) != NULL)
            continue;
        if (members_share(properties, row, &row->members[i], name) < 0)
            return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
construct_columns(PyTypeObject *type, PyObject *given, PyObject *words)
{
    PyObject *named, *prefix;
    static char *known[] = {"named", "prefix", NULL};
    if (!PyArg_ParseTupleAndKeywords(given, words, "O!U", known, &PyFrozenSet_Type, &named, &prefix))
        return NULL;
    Columns *self = (Columns *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->call = keep_columns;
    self->prefix = Py_NewRef(prefix);
    if ((self->named = names_only(named)) == NULL)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void
dealloc_columns(Columns *self)
{
    Py_CLEAR(self->named);
    Py_CLEAR(self->prefix);
    PyMem_Free(self->becomes);
    PyMem_Free(self->answers.known);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

PyTypeObject Columns_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "pipeline.native._native.Columns",
    .tp_basicsize = sizeof(Columns),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Columns, call),
    .tp_call = PyVectorcall_Call,
    .tp_new = construct_columns,
    .tp_dealloc = (destructor)dealloc_columns,
};
