/* The table of members' names, by their JSON spelling in a row and by their characters. */

#include "native.h"

#define SLOTS (1 << 15)
#define MOST_SPELLINGS (1 << 14) /* so that an export with a new name in every row does not fill the memory */
#define LONGEST 1000

static PyObject *encode, *decode_text;
static PyObject *numbers; /* dict: text -> number */
static Name **names;
static Py_ssize_t count, room;
static Spelling slots[SLOTS];
static Py_ssize_t spellings;

int
names_init(PyObject *encode_, PyObject *decode_text_)
{
    encode = Py_NewRef(encode_);
    decode_text = Py_NewRef(decode_text_);
    return (numbers = PyDict_New()) == NULL ? -1 : 0;
}

static PyObject *
written(PyObject *text)
{
    PyObject *json = PyObject_CallOneArg(encode, text);
    if (json == NULL)
        return NULL;
    if (!PyBytes_CheckExact(json)) {
        Py_DECREF(json);
        return PyErr_Format(PyExc_TypeError, "the encoder did not return bytes");
    }
    Py_ssize_t length = PyBytes_GET_SIZE(json);
    PyObject *whole = PyBytes_FromStringAndSize(NULL, length + 2);
    if (whole != NULL) {
        char *to = PyBytes_AS_STRING(whole);
        to[0] = ',';
        memcpy(to + 1, PyBytes_AS_STRING(json), (size_t)length);
        to[length + 1] = ':';
    }
    Py_DECREF(json);
    return whole;
}

Name *
names_find(PyObject *text)
{
    if (!PyUnicode_CheckExact(text)) /* a subclass may compare itself in Python */
        return NULL;
    PyObject *number = PyDict_GetItemWithError(numbers, text);
    if (number != NULL)
        return names[PyLong_AsSsize_t(number)];
    PyErr_Clear();
    return NULL;
}

Name *
name_of(PyObject *text)
{
    Name *name = names_find(text);
    if (name != NULL)
        return name;
    if (!PyUnicode_CheckExact(text))
        return (Name *)PyErr_Format(PyExc_TypeError, "a name must be a str");
    if (count == room) {
        Py_ssize_t more = room ? room * 2 : 256;
        Name **larger = PyMem_Realloc(names, (size_t)more * sizeof(Name *));
        if (larger == NULL)
            return (Name *)PyErr_NoMemory();
        names = larger;
        room = more;
    }
    name = PyMem_Calloc(1, sizeof(Name));
    if (name == NULL)
        return (Name *)PyErr_NoMemory();
    name->number = count;
    name->written = written(text);
    PyObject *number = PyLong_FromSsize_t(count);
    if (name->written == NULL || number == NULL || PyDict_SetItem(numbers, text, number) < 0) {
        Py_XDECREF(name->written);
        Py_XDECREF(number);
        PyMem_Free(name);
        return NULL;
    }
    Py_DECREF(number);
    name->text = Py_NewRef(text);
    PyUnicode_InternInPlace(&name->text);
    names[count++] = name;
    return name;
}

int
names_room(Py_ssize_t most)
{
    return count < most;
}

PyObject *
names_only(PyObject *set)
{
    PyObject *iterator = PyFrozenSet_CheckExact(set) ? PyObject_GetIter(set) : NULL, *name;
    int only = iterator != NULL;
    while (only && (name = PyIter_Next(iterator)) != NULL) {
        only = PyUnicode_CheckExact(name);
        Py_DECREF(name);
    }
    Py_XDECREF(iterator);
    if (only && !PyErr_Occurred())
        return Py_NewRef(set);
    return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "a frozenset of names was expected");
}

static uint32_t
hash_of(const char *bytes, Py_ssize_t length)
{
    uint64_t hash = (uint64_t)length * 0x9E3779B97F4A7C15u;
    for (; length >= 8; bytes += 8, length -= 8) {
        uint64_t eight;
        memcpy(&eight, bytes, 8);
        hash = (hash ^ eight) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 29;
    }
    uint64_t tail = 0;
    memcpy(&tail, bytes, (size_t)length);
    hash = (hash ^ tail) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(hash >> 32);
}

/* The name that some bytes of a row spell, without quotes; NULL without an exception if they spell none. */
static Name *
read_name(const char *bytes, Py_ssize_t length)
{
    PyObject *json = PyBytes_FromStringAndSize(NULL, length + 2);
    if (json == NULL)
        return NULL;
    char *to = PyBytes_AS_STRING(json);
    to[0] = to[length + 1] = '"';
    memcpy(to + 1, bytes, (size_t)length);
    PyObject *text = PyObject_CallOneArg(decode_text, json);
    Py_DECREF(json);
    if (text == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_MemoryError))
            PyErr_Clear();
        return NULL;
    }
    Name *name = name_of(text);
    Py_DECREF(text);
    return name;
}

Spelling *
spelling_of(const char *bytes, Py_ssize_t length)
{
    if (length > LONGEST)
        return NULL;
    uint32_t hash = hash_of(bytes, length);
    Spelling *slot = &slots[hash % SLOTS];
    while (slot->bytes != NULL) {
        if (slot->hash == hash && slot->length == (uint32_t)length && memcmp(slot->bytes, bytes, (size_t)length) == 0)
            return slot;
        if (++slot == slots + SLOTS)
            slot = slots;
    }
    if (spellings == MOST_SPELLINGS)
        return NULL;
    Name *name = read_name(bytes, length);
    if (name == NULL)
        return NULL;
    char *copy = PyMem_Malloc((size_t)length + 1);
    if (copy == NULL)
        return (Spelling *)PyErr_NoMemory();
    memcpy(copy, bytes, (size_t)length);
    *slot = (Spelling){hash, (uint32_t)length, copy, name};
    spellings++;
    return slot;
}

uint32_t *
answer_of(Answers *answers, const Name *name)
{
    if (name->number >= answers->room) {
        Py_ssize_t more = name->number + 256;
        uint32_t *larger = PyMem_Realloc(answers->answers, (size_t)more * sizeof(uint32_t));
        if (larger == NULL)
            return (uint32_t *)PyErr_NoMemory();
        memset(larger + answers->room, 0, (size_t)(more - answers->room) * sizeof(uint32_t));
        answers->answers = larger;
        answers->room = more;
    }
    return &answers->answers[name->number];
}
