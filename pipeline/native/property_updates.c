/* Updates of properties: which of several values of one property remains, as in `pipeline.identity.accumulators`. */

#include "accumulators.h"

/* A value as JSON, or that of a member, where `member` is not NULL; NULL with an exception. */
static PyObject *
encoded(const Accumulator *self, PyObject *value, const Member *member)
{
    if (member != NULL) {
        if (member->at != NULL)
            return PyBytes_FromStringAndSize(member->at, member->length);
        value = member_value(member);
        PyObject *json = value == NULL ? NULL : encoded(self, value, NULL);
        Py_XDECREF(value);
        return json;
    }
    if (self->json_of == NULL)
        return PyErr_Format(PyExc_TypeError, "this accumulator has no values");
    PyObject *json = PyObject_CallOneArg(self->json_of, value);
    if (json == NULL || PyBytes_CheckExact(json))
        return json;
    Py_DECREF(json);
    return PyErr_Format(PyExc_TypeError, "bytes were expected");
}

/* Whether a JSON text is greater (1) or less (-1) than another, or equal (0). */
static int
compare_json(PyObject *text, PyObject *other)
{
    Py_ssize_t length = PyBytes_GET_SIZE(text), others = PyBytes_GET_SIZE(other);
    int order = memcmp(PyBytes_AS_STRING(text), PyBytes_AS_STRING(other), (size_t)(length < others ? length : others));
    return order ? (order > 0) - (order < 0) : (length > others) - (length < others);
}

/* How an update compares with the stored one: it loses (0), wins (1), or its value decides (2). */
static int
rank(const Entry *entry, int kind, int64_t at, int64_t received)
{
    if (entry == NULL || kind > entry->kind)
        return 1;
    if (kind < entry->kind)
        return 0;
    const int64_t *of = entry->numbers;
    if (at == of[0] && received == of[1])
        return 2;
    int later = at > of[0] || (at == of[0] && received > of[1]);
    return later == (kind == UPDATE_SET);
}

/* Numbers are the time and receive time of the stored value, and the latest time of any. */
static int
update(Accumulator *self, int32_t *guess, int kind, PyObject *owner, PyObject *name, PyObject *value,
       const Member *member, int64_t at, int64_t received)
{
    if (!are_texts(owner, name))
        return -1;
    Entry *existing = find_entry(self, *guess, owner, name);
    int32_t number = existing == NULL ? 0 : (int32_t)(existing - self->entries) + 1;
    PyObject *json = NULL;
    if (rank(existing, kind, at, received)) {
        /* Turning a value into JSON runs Python code, which may add updates: the entry is looked up again. */
        if ((json = encoded(self, value, member)) == NULL)
            return -1;
        if (existing != NULL)
            existing = find_entry(self, number, owner, name);
    }
    if (json != NULL && kind == UPDATE_SET_ONCE && PyBytes_GET_SIZE(json) == 4 &&
        memcmp(PyBytes_AS_STRING(json), "null", 4) == 0)
        kind = UPDATE_NULL_ONCE;
    Entry *entry = existing == NULL ? entry_of(self, 0, owner, name) : existing;
    if (entry == NULL) {
        Py_XDECREF(json);
        return -1;
    }
    *guess = (int32_t)(entry - self->entries) + 1;
    int64_t *of = entry->numbers;
    int wins = json == NULL ? 0 : rank(entry->kind == 0 ? NULL : entry, kind, at, received);
    if (wins == 2)
        wins = compare_json(json, entry->value) == (kind == UPDATE_SET ? 1 : -1);
    if (entry->kind == 0 || at > of[2])
        of[2] = at;
    if (!wins) {
        Py_XDECREF(json);
        return 0;
    }
    PyObject *before = entry->value;
    self->bytes += PyBytes_GET_SIZE(json) - (before == NULL ? 0 : PyBytes_GET_SIZE(before));
    of[0] = at, of[1] = received;
    entry->kind = kind;
    entry->value = json;
    Py_XDECREF(before);
    return 0;
}

static int
accumulate_members(Accumulator *self, int32_t *guess, int kind, PyObject *owner, const Members *members, int64_t at,
                   int64_t received)
{
    int32_t next_guess = guess == NULL ? 0 : *guess, first = 0;
    for (Py_ssize_t i = 0; i < members->used; i++) {
        const Member member = members->members[i];
        if (member.name == NULL)
            continue;
        if (update(self, &next_guess, kind, owner, member.name->text, NULL, &member, at, received) < 0)
            return -1;
        first = first ? first : next_guess;
        next_guess++;
    }
    if (guess != NULL && first)
        *guess = first;
    return 0;
}

int
accumulate_properties(Accumulator *self, int32_t *guess, int kind, PyObject *owner, PyObject *mapping, int64_t at,
                      int64_t received)
{
    if (Members_Check(mapping))
        return accumulate_members(self, guess, kind, owner, (const Members *)mapping, at, received);
    PyObject *values = PyDict_CheckExact(mapping) ? Py_NewRef(mapping)
                                                  : PyObject_CallOneArg((PyObject *)&PyDict_Type, mapping);
    PyObject *name, *value;
    Py_ssize_t position = 0;
    int failed = values == NULL;
    int32_t next_guess = guess == NULL ? 0 : *guess, first = 0;
    while (!failed && PyDict_Next(values, &position, &name, &value)) {
        Py_INCREF(name); /* turning a value into JSON may remove it from the dict */
        Py_INCREF(value);
        failed = update(self, &next_guess, kind, owner, name, value, NULL, at, received) < 0;
        Py_DECREF(name);
        Py_DECREF(value);
        first = first ? first : next_guess;
        next_guess++; /* the entries of one owner are mostly neighbours */
    }
    if (guess != NULL && first)
        *guess = first;
    Py_XDECREF(values);
    return failed ? -1 : 0;
}

static PyObject *
update_all(Accumulator *self, int kind, PyObject *const *arguments, Py_ssize_t count)
{
    int64_t at, received;
    if (count != 4)
        return PyErr_Format(PyExc_TypeError, "four arguments were expected");
    if (number_of(arguments[2], &at) < 0 || number_of(arguments[3], &received) < 0 ||
        accumulate_properties(self, NULL, kind, arguments[0], arguments[1], at, received) < 0)
        return NULL;
    Py_RETURN_NONE;
}

PyObject *
set_properties(Accumulator *self, PyObject *const *arguments, Py_ssize_t count)
{
    return update_all(self, UPDATE_SET, arguments, count);
}

PyObject *
set_properties_once(Accumulator *self, PyObject *const *arguments, Py_ssize_t count)
{
    return update_all(self, UPDATE_SET_ONCE, arguments, count);
}
