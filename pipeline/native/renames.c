/* Changes properties by their names alone: Renames drops and renames them; Spread copies the members of an object, or
 * the columns of the row, to them. */

#include "native.h"

#define NONE 1              /* an answer: no change; n + 2 is the n-th change */
#define WATCHED 0x80000000u /* a flag of an answer: `on_watched` is called for this name */
#define MOST 0x40000000     /* changes or columns: their number fits into an answer */
#define ON_STACK 64         /* changes of one row that need no allocation */

/* --- renames and drops ----------------------------------------------------------------------------------- */

typedef struct {
    Name *old;
    Name *new; /* NULL: dropped */
} Change;

typedef struct {
    PyObject_HEAD
    Change *changes;
    Py_ssize_t count;
    PyObject *table;      /* dict: old name -> number of the change */
    PyObject *collided;   /* called when a row has both names */
    PyObject *watched;    /* frozenset of names */
    PyObject *on_watched; /* called before all changes if the row has a watched name */
    PyObject *leaves;     /* called once with each name without a change, to ask whether it is dropped; or NULL */
    Answers answers;
    vectorcallfunc call;
} Renames;

/* Add the change that drops a name; returns its answer, 0 with an exception. */
static uint32_t
drop_too(Renames *self, Name *name)
{
    Change *larger = self->count >= MOST ? NULL
                                         : PyMem_Realloc(self->changes, ((size_t)self->count + 1) * sizeof(Change));
    if (larger == NULL) {
        PyErr_NoMemory();
        return 0;
    }
    self->changes = larger;
    self->changes[self->count] = (Change){.old = name};
    return (uint32_t)self->count++ + 2;
}

/* The answer for a name; 0 with an exception. */
static uint32_t
change_of(Renames *self, Name *name)
{
    uint32_t *answer = answer_of(&self->answers, name);
    if (answer == NULL)
        return 0;
    if (*answer == 0) {
        PyObject *number = PyDict_GetItemWithError(self->table, name->text);
        uint32_t change = number == NULL ? NONE : (uint32_t)PyLong_AsLong(number) + 2;
        if (number == NULL && !PyErr_Occurred()) {
            PyObject *leaves = self->leaves == NULL ? Py_NewRef(Py_False) : PyObject_CallOneArg(self->leaves, name->text);
            int left = leaves == NULL ? -1 : PyObject_IsTrue(leaves);
            Py_XDECREF(leaves);
            if (left < 0 || (left && (change = drop_too(self, name)) == 0))
                return 0;
            answer = answer_of(&self->answers, name);
        }
        int watched = number == NULL && PyErr_Occurred() ? -1 : PySet_Contains(self->watched, name->text);
        if (watched < 0)
            return 0;
        *answer = change | (watched ? WATCHED : 0);
    }
    return *answer;
}

/* The changes of one call. Python code that it calls may change the members, so there are no pointers into them. */
typedef struct {
    Py_ssize_t *numbers; /* the numbers of the changes that apply, ascending */
    Member *removed;     /* the member that each removes; its value is owned */
    Py_ssize_t count, room;
    int watched;
    Py_ssize_t numbers_on_stack[ON_STACK];
    Member removed_on_stack[ON_STACK];
} Changing;

static int
reserve(Changing *work, Py_ssize_t room)
{
    if (room <= work->room)
        return 0;
    Py_ssize_t *numbers = PyMem_Malloc((size_t)room * sizeof(Py_ssize_t));
    Member *removed = PyMem_Malloc((size_t)room * sizeof(Member));
    if (numbers == NULL || removed == NULL) {
        PyMem_Free(numbers);
        PyMem_Free(removed);
        PyErr_NoMemory();
        return -1;
    }
    if (work->numbers != work->numbers_on_stack) {
        PyMem_Free(work->numbers);
        PyMem_Free(work->removed);
    }
    work->numbers = numbers;
    work->removed = removed;
    work->room = room;
    return 0;
}

/* Collect the changes that apply. -1 with an exception. */
static int
find_changes(Renames *self, const Members *members, Changing *work)
{
    work->count = 0;
    work->watched = 0;
    for (Py_ssize_t i = 0; i < members->used; i++) {
        Name *name = members->members[i].name;
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
        Py_ssize_t index = work->count++, number = (Py_ssize_t)answer - 2;
        for (; index > 0 && work->numbers[index - 1] > number; index--)
            work->numbers[index] = work->numbers[index - 1];
        work->numbers[index] = number;
    }
    return 0;
}

/* Remove and return a member; the result has no name if there is none. */
static Member
remove_named(Members *members, const Name *name)
{
    Member *member = members_find_name(members, name), removed = {.name = NULL};
    if (member != NULL) {
        removed = *member;
        *member = (Member){.name = NULL};
        members->live--;
    }
    return removed;
}

static PyObject *
collide(Renames *self, Members *members, const Change *change, const Member *removed, PyObject *warnings)
{
    PyObject *value = member_value(removed);
    if (value == NULL)
        return NULL;
    PyObject *all[] = {change->old->text, change->new->text, value, (PyObject *)members, warnings};
    PyObject *more = PyObject_Vectorcall(self->collided, all, 5, NULL);
    Py_DECREF(value);
    return more;
}

static PyObject *
rename_members(PyObject *callable, PyObject *const *arguments, size_t flags, PyObject *named)
{
    Renames *self = (Renames *)callable;
    if (PyVectorcall_NARGS(flags) != 2 || named != NULL || !Members_Check(arguments[0]))
        return PyErr_Format(PyExc_TypeError, "Members and warnings were expected");
    Members *members = (Members *)arguments[0];
    Changing work; /* its arrays stay uninitialised beyond `count` */
    work.room = ON_STACK;
    work.numbers = work.numbers_on_stack;
    work.removed = work.removed_on_stack;
    PyObject *warnings = Py_NewRef(arguments[1]);
    Py_ssize_t removed = 0;
    if (reserve(&work, members->used) < 0 || find_changes(self, members, &work) < 0)
        goto failed;
    if (work.watched) {
        Py_SETREF(warnings, PyObject_CallFunctionObjArgs(self->on_watched, members, warnings, NULL));
        if (warnings == NULL || reserve(&work, members->used) < 0 || find_changes(self, members, &work) < 0)
            goto failed;
    }
    for (; removed < work.count; removed++)
        work.removed[removed] = remove_named(members, self->changes[work.numbers[removed]].old);
    for (Py_ssize_t i = 0; i < work.count; i++) {
        const Change *change = &self->changes[work.numbers[i]];
        Member *old = &work.removed[i];
        if (old->name == NULL || change->new == NULL)
            continue;
        if (members_find_name(members, change->new) != NULL) {
            Py_SETREF(warnings, collide(self, members, change, old, warnings));
            if (warnings == NULL)
                goto failed;
            continue;
        }
        Member *member = members_add(members);
        if (member == NULL)
            goto failed;
        *member = *old;
        member->name = change->new;
        old->value = NULL;
    }
    goto end;
failed:
    Py_CLEAR(warnings);
end:
    for (Py_ssize_t i = 0; i < removed; i++)
        Py_XDECREF(work.removed[i].value);
    if (work.numbers != work.numbers_on_stack) {
        PyMem_Free(work.numbers);
        PyMem_Free(work.removed);
    }
    return warnings;
}

static PyObject *
construct_renames(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    PyObject *changes, *collided, *watched, *on_watched, *leaves = Py_None;
    static char *parameters[] = {"changes", "collided", "watched", "on_watched", "leaves", NULL};
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O!OO!O|O", parameters, &PyTuple_Type, &changes, &collided,
                                     &PyFrozenSet_Type, &watched, &on_watched, &leaves))
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
    self->leaves = leaves == Py_None ? NULL : Py_NewRef(leaves);
    self->table = PyDict_New();
    self->changes = PyMem_Calloc((size_t)count + 1, sizeof(Change));
    if (self->changes == NULL)
        PyErr_NoMemory();
    if (self->watched == NULL || self->table == NULL || self->changes == NULL)
        goto failed;
    for (; self->count < count; self->count++) {
        PyObject *old, *new, *item = PyTuple_GET_ITEM(changes, self->count);
        if (!PyTuple_Check(item)) {
            PyErr_SetString(PyExc_TypeError, "a change is a tuple: the old name, the new one or None");
            goto failed;
        }
        if (!PyArg_ParseTuple(item, "OO", &old, &new))
            goto failed;
        Change *change = &self->changes[self->count];
        change->old = name_of(old);
        change->new = new == Py_None ? NULL : name_of(new);
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
    Py_CLEAR(self->leaves);
    PyMem_Free(self->changes);
    PyMem_Free(self->answers.answers);
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

/* --- members of an object that become properties ----------------------------------------------------------- */

#define MOST_SPREAD 1024 /* members of one object */

typedef struct {
    Name *name;
    uint64_t call; /* the last call in which a member got the name */
} Target;

typedef struct {
    PyObject_HEAD
    PyObject *new_name; /* called once with each name, returns the new one or None */
    PyObject *blanks;   /* a Blanks: members that it removes are left out; or NULL */
    PyObject *collided; /* called if the properties have the new name */
    PyObject *slow;     /* called if two members get one name, or there are too many */
    int without_nulls;  /* members that are null are left out */
    Target *targets;
    Py_ssize_t count, room;
    uint64_t calls;
    Answers answers;
    vectorcallfunc call;
} Spread;

/* The number of a new name, added if it is new; -1 with an exception. */
static Py_ssize_t
target_of(Spread *self, PyObject *text)
{
    Name *name = name_of(text);
    if (name == NULL)
        return -1;
    for (Py_ssize_t i = 0; i < self->count; i++)
        if (self->targets[i].name == name)
            return i;
    if (self->count == self->room) {
        Py_ssize_t more = self->room ? self->room * 2 : 64;
        Target *larger = PyMem_Realloc(self->targets, (size_t)more * sizeof(Target));
        if (larger == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        self->targets = larger;
        self->room = more;
    }
    self->targets[self->count] = (Target){name, 0};
    return self->count++;
}

/* The answer for a name; 0 with an exception. It may run Python. */
static uint32_t
spread_as(Spread *self, const Name *name)
{
    uint32_t *answer = answer_of(&self->answers, name);
    if (answer == NULL || *answer != 0)
        return answer == NULL ? 0 : *answer;
    PyObject *text = PyObject_CallOneArg(self->new_name, name->text);
    if (text == NULL)
        return 0;
    Py_ssize_t target = text == Py_None ? -1 : target_of(self, text);
    int none = text == Py_None;
    Py_DECREF(text);
    if ((!none && target < 0) || (answer = answer_of(&self->answers, name)) == NULL)
        return 0;
    return *answer = none ? NONE : (uint32_t)target + 2;
}

/* What each member becomes, NULL for nothing. 1; 0 if it is left to Python; -1 with an exception. */
static int
find_targets(Spread *self, const Members *object, Name **names)
{
    if (object->used > MOST_SPREAD)
        return 0;
    uint64_t call = ++self->calls;
    for (Py_ssize_t i = 0; i < object->used; i++) {
        names[i] = NULL;
        const Name *name = object->members[i].name;
        if (name == NULL || (self->without_nulls && member_is_null(&object->members[i])))
            continue;
        uint32_t answer = spread_as(self, name);
        if (answer == 0)
            return -1;
        if (answer == NONE || answer - 2 >= MOST)
            continue;
        int blank = self->blanks == NULL ? 0 : blanks_has(self->blanks, &object->members[i]);
        if (blank < 0)
            return -1;
        if (blank)
            continue;
        Target *target = &self->targets[answer - 2];
        if (target->call == call)
            return 0;
        target->call = call;
        names[i] = target->name;
    }
    return 1;
}

/* spread(object): new Members; None if it is left to Python. */
static PyObject *
select_members(Spread *self, const Members *object)
{
    Name *names[MOST_SPREAD];
    Py_ssize_t count = object->used;
    int found = find_targets(self, object, names);
    if (found <= 0)
        return found < 0 ? NULL : Py_NewRef(Py_None);
    Members *selected = members_new(NULL);
    for (Py_ssize_t i = 0; selected != NULL && i < count && i < object->used; i++)
        if (names[i] != NULL && object->members[i].name != NULL &&
            members_share(selected, object, &object->members[i], names[i]) < 0)
            Py_CLEAR(selected);
    return (PyObject *)selected;
}

/* spread(object, properties, warnings) */
static PyObject *
spread_members(PyObject *callable, PyObject *const *arguments, size_t flags, PyObject *named)
{
    Spread *self = (Spread *)callable;
    if (PyVectorcall_NARGS(flags) == 1 && named == NULL && Members_Check(arguments[0]))
        return select_members(self, (Members *)arguments[0]);
    if (PyVectorcall_NARGS(flags) != 3 || named != NULL || !Members_Check(arguments[0]) ||
        !Members_Check(arguments[1]) || arguments[0] == arguments[1])
        return PyErr_Format(PyExc_TypeError, "Members, others and warnings were expected");
    Members *object = (Members *)arguments[0], *properties = (Members *)arguments[1];
    Name *names[MOST_SPREAD];
    Py_ssize_t count = object->used;
    int found = find_targets(self, object, names);
    if (found <= 0)
        return found < 0 ? NULL : PyObject_Vectorcall(self->slow, arguments, 3, NULL);
    PyObject *warnings = Py_NewRef(arguments[2]);
    for (Py_ssize_t i = 0; i < count && i < object->used && warnings != NULL; i++) {
        const Member *member = &object->members[i];
        if (names[i] == NULL || member->name == NULL)
            continue;
        if (members_find_name(properties, names[i]) == NULL) {
            if (members_share(properties, object, member, names[i]) < 0)
                Py_CLEAR(warnings);
            continue;
        }
        PyObject *value = member_value(member);
        PyObject *all[] = {names[i]->text, value, (PyObject *)properties, warnings};
        Py_SETREF(warnings, value == NULL ? NULL : PyObject_Vectorcall(self->collided, all, 4, NULL));
        Py_XDECREF(value);
    }
    return warnings;
}

static PyObject *
construct_spread(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    PyObject *new_name, *blanks, *collided, *slow;
    int without_nulls = 0;
    static char *parameters[] = {"new_name", "blanks", "collided", "slow", "without_nulls", NULL};
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "OOOO|p", parameters, &new_name, &blanks, &collided, &slow,
                                     &without_nulls))
        return NULL;
    if (blanks != Py_None && Py_TYPE(blanks) != &Blanks_Type)
        return PyErr_Format(PyExc_TypeError, "Blanks or None were expected");
    Spread *self = (Spread *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->call = spread_members;
    self->new_name = Py_NewRef(new_name);
    self->blanks = blanks == Py_None ? NULL : Py_NewRef(blanks);
    self->collided = Py_NewRef(collided);
    self->slow = Py_NewRef(slow);
    self->without_nulls = without_nulls;
    return (PyObject *)self;
}

static void
dealloc_spread(Spread *self)
{
    Py_CLEAR(self->new_name);
    Py_CLEAR(self->blanks);
    Py_CLEAR(self->collided);
    Py_CLEAR(self->slow);
    PyMem_Free(self->targets);
    PyMem_Free(self->answers.answers);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

PyTypeObject Spread_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "pipeline.native._native.Spread",
    .tp_basicsize = sizeof(Spread),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Spread, call),
    .tp_call = PyVectorcall_Call,
    .tp_new = construct_spread,
    .tp_dealloc = (destructor)dealloc_spread,
};
