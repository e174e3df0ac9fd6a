/* What becomes of properties by their names alone: left out, renamed, or kept under another beginning. */

#include "native.h"

#define NONE 1 /* an answer: nothing becomes of this name; n + 2 is the n-th change */
#define WATCHED 0x8000 /* beside it: a name that has to be looked at before */
#define MOST 30000
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
    PyObject *seen;     /* called before all changes when the row has one of the watched */
    Answers answers;
    vectorcallfunc call;
} Renames;

/* The answer for a name; 0 with an exception. */
static uint16_t
change_of(Renames *self, const Name *name)
{
    uint16_t *answer = answer_of(&self->answers, name);
    if (answer == NULL)
        return 0;
    if (*answer == 0) {
        PyObject *number = PyDict_GetItemWithError(self->table, name->text);
        int watched = number == NULL && PyErr_Occurred() ? -1 : PySet_Contains(self->watched, name->text);
        if (watched < 0)
            return 0;
        *answer = (uint16_t)((number == NULL ? NONE : PyLong_AsLong(number) + 2) | (watched ? WATCHED : 0));
    }
    return *answer;
}

/* The changes for members that are there, in order. Their count; -1 with an exception. */
static Py_ssize_t
find_changes(Renames *self, Members *members, Py_ssize_t *found, int *watched)
{
    Py_ssize_t count = 0;
    *watched = 0;
    for (Member *one = members->members, *end = one + members->used; one < end; one++) {
        if (one->name == NULL)
            continue;
        uint16_t answer = change_of(self, one->name);
        if (answer == 0)
            return -1;
        *watched |= answer & WATCHED;
        answer &= (uint16_t)~WATCHED;
        if (answer == NONE)
            continue;
        Py_ssize_t place = count++, number = answer - 2;
        for (; place > 0 && found[place - 1] > number; place--)
            found[place] = found[place - 1];
        found[place] = number;
    }
    return count;
}

static PyObject *
collide(Renames *self, Members *members, const Change *change, Member *taken, PyObject *warnings)
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
    Py_ssize_t on_stack[AT_ONCE], *found = on_stack;
    Member taken_on_stack[AT_ONCE], *taken = taken_on_stack;
    if (members->used > AT_ONCE) {
        found = PyMem_Malloc((size_t)members->used * sizeof(Py_ssize_t));
        taken = PyMem_Malloc((size_t)members->used * sizeof(Member));
    }
    PyObject *warnings = NULL;
    Py_ssize_t count = 0, done = 0;
    int watched;
    if (found == NULL || taken == NULL) {
        PyErr_NoMemory();
        goto end;
    }
    count = find_changes(self, members, found, &watched);
    warnings = Py_NewRef(given[1]);
    if (count >= 0 && watched) {
        Py_SETREF(warnings, PyObject_CallFunctionObjArgs(self->seen, members, warnings, NULL));
        count = warnings == NULL ? -1 : find_changes(self, members, found, &watched);
    }
    if (count < 0) {
        count = 0;
        Py_CLEAR(warnings);
        goto end;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        const Change *change = &self->changes[found[i]];
        Member *one = change->first ? members_find_name(members, change->old) : NULL;
        taken[i] = one != NULL ? *one : (Member){NULL, NULL, NULL, 0};
        if (one != NULL) {
            *one = (Member){NULL, NULL, NULL, 0};
            members->live--;
        }
    }
    for (; done < count && warnings != NULL; done++) {
        const Change *change = &self->changes[found[done]];
        if (!change->first) {
            Member *one = members_find_name(members, change->old);
            taken[done] = *one;
            *one = (Member){NULL, NULL, NULL, 0};
            members->live--;
        }
        if (change->new == NULL)
            continue;
        if (members_find_name(members, change->new) != NULL)
            Py_SETREF(warnings, collide(self, members, change, &taken[done], warnings));
        else {
            Member *one = members_add(members);
            if (one == NULL)
                Py_CLEAR(warnings);
            else {
                *one = taken[done];
                one->name = change->new;
                taken[done].value = NULL;
            }
        }
    }
end:
    for (Py_ssize_t i = 0; i < count; i++)
        if (i < done || self->changes[found[i]].first)
            Py_XDECREF(taken[i].value);
    if (found != on_stack)
        PyMem_Free(found);
    if (taken != taken_on_stack)
        PyMem_Free(taken);
    return warnings;
}

static PyObject *
construct_renames(PyTypeObject *type, PyObject *given, PyObject *named)
{
    PyObject *changes, *collided, *watched, *seen;
    static char *words[] = {"changes", "collided", "watched", "seen", NULL};
    if (!PyArg_ParseTupleAndKeywords(given, named, "O!OO!O", words, &PyTuple_Type, &changes, &collided,
                                     &PyFrozenSet_Type, &watched, &seen))
        return NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(changes);
    if (count > MOST)
        return PyErr_Format(PyExc_ValueError, "too many changes");
    Renames *self = (Renames *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->call = rename_members;
    self->collided = Py_NewRef(collided);
    self->watched = Py_NewRef(watched);
    self->seen = Py_NewRef(seen);
    self->table = PyDict_New();
    self->changes = PyMem_Calloc((size_t)count + 1, sizeof(Change));
    if (self->table == NULL || self->changes == NULL)
        goto failed;
    for (; self->count < count; self->count++) {
        PyObject *old, *new;
        int first;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(changes, self->count), "UOp", &old, &new, &first))
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
    Py_CLEAR(self->seen);
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
    uint16_t *answer = answer_of(&self->answers, column);
    if (answer == NULL)
        return NULL;
    if (*answer > NONE)
        return self->becomes[*answer - 2];
    if (*answer == NONE)
        return NULL;
    int named = PySet_Contains(self->named, column->text);
    if (named) {
        if (named > 0)
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
    *answer = (uint16_t)(self->count++ + 2);
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
    for (Py_ssize_t i = 0; i < row->used; i++) {
        Member *one = &row->members[i];
        if (one->name == NULL || (one->at != NULL && *one->at == 'n'))
            continue;
        Name *name = becomes(self, one->name);
        if (name == NULL) {
            if (PyErr_Occurred())
                return NULL;
            continue;
        }
        if (members_find_name(properties, name) != NULL)
            continue;
        Member *kept = members_share(properties, row);
        if (kept == NULL)
            return NULL;
        *kept = (Member){name, Py_XNewRef(one->value), one->at, one->length};
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
    self->named = Py_NewRef(named);
    self->prefix = Py_NewRef(prefix);
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
