/* What a plan keeps of an event that is plainly good, as `pipeline.events.observing` keeps it. */

#include "folds.h"
#include "native.h"

#define OVERWRITES 1
#define GROUPS 2
#define NOTE 4

enum { NAMES, IDS, TIMES, RECEIVED, USERS, WALLS, WALLS_RECEIVED, LISTS };

typedef struct {
    PyObject_HEAD
    PyObject *lists[LISTS];
    Fold *pairs;      /* NULL: whoever asks hears notes by itself */
    Fold *properties; /* NULL: nobody wants properties of persons */
    int64_t place, absent;
    vectorcallfunc call;
} Observer;

static PyObject *text_event, *text_distinct_id, *text_received, *text_wall, *text_note;
static PyObject *text_anonymous, *text_user, *text_set, *text_set_once, *name_set, *name_groups, *zero;

int
observer_init(void)
{
    struct {
        PyObject **place;
        const char *text;
    } const texts[] = {
        {&text_event, "event"}, {&text_distinct_id, "distinct_id"}, {&text_received, "received"},
        {&text_wall, "wall"}, {&text_note, "note"}, {&text_anonymous, "anonymous"}, {&text_user, "user"},
        {&text_set, "set"}, {&text_set_once, "set_once"}, {&name_set, "$set"}, {&name_groups, "$groups"},
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if ((*texts[i].place = PyUnicode_InternFromString(texts[i].text)) == NULL)
            return -1;
    return (zero = PyLong_FromLong(0)) == NULL ? -1 : 0;
}

static int
has(PyObject *properties, PyObject *name)
{
    if (Members_Check(properties))
        return members_find((Members *)properties, name) != NULL;
    return PyDict_Contains(properties, name);
}

/* Append what an object has under a name; `instead` where that is None. */
static int
append(PyObject *list, PyObject *of, PyObject *name, PyObject *instead)
{
    PyObject *value = PyObject_GetAttr(of, name);
    int failed = value == NULL || PyList_Append(list, instead != NULL && value == Py_None ? instead : value) < 0;
    Py_XDECREF(value);
    return failed ? -1 : 0;
}

static int
hear_properties(Observer *self, int kind, PyObject *note, PyObject *name, PyObject *owner, int64_t at, int64_t got)
{
    PyObject *values = PyObject_GetAttr(note, name);
    int failed = values == NULL || (values != Py_None && fold_say(self->properties, kind, owner, values, at, got) < 0);
    Py_XDECREF(values);
    return failed ? -1 : 0;
}

static int
hear_note(Observer *self, PyObject *note, PyObject *user, PyObject *id, int64_t row, int64_t time, PyObject *received)
{
    PyObject *anonymous = PyObject_GetAttr(note, text_anonymous);
    if (anonymous == NULL)
        return -1;
    int failed = anonymous != Py_None && user != Py_None &&
                 fold_hear(self->pairs, anonymous, user, 1, time, time, self->place + row) < 0;
    Py_DECREF(anonymous);
    if (failed || self->properties == NULL)
        return failed ? -1 : 0;
    int64_t got = self->absent;
    if (received != Py_None) {
        got = PyLong_AsLongLong(received);
        if (got == -1 && PyErr_Occurred())
            return -1;
    }
    if (hear_properties(self, FOLD_SET, note, text_set, id, time, got) < 0)
        return -1;
    return hear_properties(self, FOLD_SET_ONCE, note, text_set_once, id, time, got);
}

/* observer(row, index, draft, time, distinct_id, properties): what is left to do, as bits */
static PyObject *
observe(PyObject *callable, PyObject *const *given, size_t count, PyObject *Py_UNUSED(words))
{
    Observer *self = (Observer *)callable;
    if (PyVectorcall_NARGS(count) != 6) {
        PyErr_SetString(PyExc_TypeError, "six arguments were expected");
        return NULL;
    }
    PyObject *index = given[1], *draft = given[2], *id = given[4], *properties = given[5];
    int64_t row = PyLong_AsLongLong(given[0]), time = PyLong_AsLongLong(given[3]);
    if ((row == -1 || time == -1) && PyErr_Occurred())
        return NULL;
    int overwrites = has(properties, name_set), groups = has(properties, name_groups);
    if (overwrites < 0 || groups < 0)
        return NULL;
    long left = (overwrites ? OVERWRITES : 0) | (groups ? GROUPS : 0);
    PyObject *received = PyObject_GetAttr(draft, text_received), *wall = PyObject_GetAttr(draft, text_wall);
    PyObject *note = PyObject_GetAttr(draft, text_note), *user = NULL;
    int failed = received == NULL || wall == NULL || note == NULL || append(self->lists[NAMES], draft, text_event, NULL) < 0 ||
                 PyList_Append(self->lists[IDS], id) < 0 || PyList_Append(self->lists[TIMES], given[3]) < 0 ||
                 PyList_Append(self->lists[RECEIVED], received == Py_None ? zero : received) < 0;
    if (!failed && wall != Py_None && PyObject_IsTrue(received))
        failed = PyList_Append(self->lists[WALLS], wall) < 0 || PyList_Append(self->lists[WALLS_RECEIVED], received) < 0;
    if (!failed && note != Py_None) {
        user = PyObject_GetAttr(note, text_user);
        failed = user == NULL;
        if (!failed && user != Py_None && PyUnicode_CheckExact(user) && PyUnicode_CheckExact(id) && same_text(user, id))
            failed = PyList_Append(self->lists[USERS], index) < 0;
        if (!failed && self->pairs != NULL)
            failed = hear_note(self, note, user, id, row, time, received) < 0;
        else
            left |= NOTE;
    }
    Py_XDECREF(received);
    Py_XDECREF(wall);
    Py_XDECREF(note);
    Py_XDECREF(user);
    return failed ? NULL : PyLong_FromLong(left);
}

static PyObject *
construct(PyTypeObject *type, PyObject *given, PyObject *words)
{
    PyObject *lists, *pairs, *properties;
    long long place, absent;
    static char *known[] = {"lists", "pairs", "properties", "place", "absent", NULL};
    if (!PyArg_ParseTupleAndKeywords(given, words, "O!OOLL", known, &PyTuple_Type, &lists, &pairs, &properties, &place,
                                     &absent))
        return NULL;
    int sound = PyTuple_GET_SIZE(lists) == LISTS && (pairs == Py_None || Py_IS_TYPE(pairs, &Pairs_Type)) &&
                (properties == Py_None || Py_IS_TYPE(properties, &Properties_Type));
    for (Py_ssize_t n = 0; sound && n < LISTS; n++)
        sound = PyList_CheckExact(PyTuple_GET_ITEM(lists, n));
    if (!sound) {
        PyErr_SetString(PyExc_TypeError, "seven lists, Pairs and Properties were expected");
        return NULL;
    }
    Observer *self = (Observer *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->call = observe;
    for (Py_ssize_t n = 0; n < LISTS; n++)
        self->lists[n] = Py_NewRef(PyTuple_GET_ITEM(lists, n));
    self->pairs = pairs == Py_None ? NULL : (Fold *)Py_NewRef(pairs);
    self->properties = properties == Py_None ? NULL : (Fold *)Py_NewRef(properties);
    self->place = place;
    self->absent = absent;
    return (PyObject *)self;
}

static void
dealloc(Observer *self)
{
    for (Py_ssize_t n = 0; n < LISTS; n++)
        Py_CLEAR(self->lists[n]);
    Py_CLEAR(self->pairs);
    Py_CLEAR(self->properties);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

PyTypeObject Observer_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "pipeline.native._native.Observer",
    .tp_basicsize = sizeof(Observer),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Observer, call),
    .tp_call = PyVectorcall_Call,
    .tp_new = construct,
    .tp_dealloc = (destructor)dealloc,
};
