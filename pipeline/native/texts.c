/* Reads the ordinary strings of a row (times, ids, uuids), and leaves all others to Python. */

#include "native.h"

#define MOST_WORDS 256
#define LONGEST_WORD 63 /* so that lengths fit into the bits of a 64-bit number */
#define UUID_DIGITS 36

typedef struct {
    PyObject_HEAD
    PyObject *slow;  /* called with the same arguments for a string that is not ordinary */
    PyObject *words; /* frozenset of str, whose characters `at` points to, or NULL */
    PyObject *format; /* str, the format of times; or NULL */
    const char *at[MOST_WORDS];
    Py_ssize_t lengths[MOST_WORDS];
    Py_ssize_t count;
    uint64_t of_first[128]; /* by the first character of a word: the lengths of such words, as bits */
    vectorcallfunc call;
} Reader;

/* The characters of an ASCII str; NULL for anything else. */
static const char *
ascii_of(PyObject *text, Py_ssize_t *length)
{
    if (!PyUnicode_CheckExact(text) || !PyUnicode_IS_COMPACT_ASCII(text))
        return NULL;
    *length = PyUnicode_GET_LENGTH(text);
    return (const char *)PyUnicode_1BYTE_DATA(text);
}

static inline int
is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

/* Two digits as a number; -1 for anything else. */
static inline int
two(const char *at)
{
    return is_digit(at[0]) && is_digit(at[1]) ? (at[0] - '0') * 10 + (at[1] - '0') : -1;
}

/* --- times ----------------------------------------------------------------------------------------------- */

#define SECOND 1000000

/* Days since 1970 of a date of the Gregorian calendar; INT64_MIN if there is no such date since the year 1. */
static int64_t
days_of(int year, int month, int day)
{
    static const int ends[] = {0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (year < 1 || month < 1 || month > 12 || day < 1)
        return INT64_MIN;
    int leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    if (day > ends[month] + (month == 2 && leap))
        return INT64_MIN;
    int64_t shifted = month <= 2 ? year - 1 : year; /* years begin in March, so that a leap day ends its year */
    int64_t of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    return shifted * 365 + shifted / 4 - shifted / 100 + shifted / 400 + of_year - 719468;
}

/* What follows the minute: 0 if it is not ordinary. */
static int
read_ending(const char *at, const char *end, int spaced, int64_t *us, int *utc, int *truncated)
{
    if (at < end && *at == ':') {
        int seconds = end - at >= 3 ? two(at + 1) : -1;
        if (seconds < 0 || seconds > 59)
            return 0;
        *us += (int64_t)seconds * SECOND;
        at += 3;
        if (at < end && *at == '.') {
            const char *digits = ++at;
            for (int64_t unit = SECOND / 10; at < end && is_digit(*at); at++, unit /= 10) {
                *us += (*at - '0') * unit;
                *truncated |= unit == 0 && *at != '0';
            }
            if (at == digits)
                return 0;
        }
    }
    if (at == end)
        return 1;
    if (spaced && *at == ' ' && ++at == end)
        return 0;
    *utc = 1;
    if (end - at == 1 && *at == 'Z')
        return 1;
    if (spaced && end - at == 3 && memcmp(at, "UTC", 3) == 0)
        return 1;
    if ((*at != '+' && *at != '-') || end - at < 3)
        return 0;
    int sign = *at == '+' ? -1 : 1, hours = two(at + 1), minutes = 0;
    at += 3;
    if (hours < 0 || hours > 23)
        return 0;
    if (at < end) {
        if (*at == ':')
            at++;
        else if (!spaced)
            return 0;
        if (end - at != 2 || (minutes = two(at)) < 0 || minutes > 59)
            return 0;
    }
    *us += sign * ((int64_t)hours * 60 + minutes) * 60 * SECOND;
    return 1;
}

static PyObject *
reading_of(int64_t us, int utc, int truncated)
{
    PyObject *number = PyLong_FromLongLong(us);
    PyObject *reading = number == NULL ? NULL : PyTuple_New(3);
    if (reading == NULL) {
        Py_XDECREF(number);
        return NULL;
    }
    PyTuple_SET_ITEM(reading, 0, number);
    PyTuple_SET_ITEM(reading, 1, PyBool_FromLong(utc));
    PyTuple_SET_ITEM(reading, 2, PyBool_FromLong(truncated));
    return reading;
}

/* read_iso(text, space): `pipeline.timestamps.read_iso` as a plain tuple. */
static PyObject *
read_iso(PyObject *callable, PyObject *const *arguments, size_t flags, PyObject *named)
{
    Reader *self = (Reader *)callable;
    Py_ssize_t length;
    const char *at;
    if (named != NULL || PyVectorcall_NARGS(flags) != 2 || !PyBool_Check(arguments[1]) ||
        (at = ascii_of(arguments[0], &length)) == NULL || length < 16 || at[4] != '-' || at[7] != '-' || at[13] != ':')
        return PyObject_Vectorcall(self->slow, arguments, flags, named);
    int space = arguments[1] == Py_True, century = two(at), years = two(at + 2), utc = 0, truncated = 0;
    int month = two(at + 5), day = two(at + 8), hour = two(at + 11), minute = two(at + 14);
    int64_t days = century < 0 || years < 0 ? INT64_MIN : days_of(century * 100 + years, month, day);
    if (days == INT64_MIN || hour < 0 || hour > 23 || minute < 0 || minute > 59 ||
        (at[10] != 'T' && !(at[10] == ' ' && space)))
        return PyObject_Vectorcall(self->slow, arguments, flags, named);
    int64_t us = ((days * 24 + hour) * 60 + minute) * 60 * SECOND;
    if (!read_ending(at + 16, at + length, at[10] == ' ', &us, &utc, &truncated))
        return PyObject_Vectorcall(self->slow, arguments, flags, named);
    return reading_of(us, utc, truncated);
}

/* The next two characters of a time as a number; -1 if they are not digits, or one is missing. */
static inline int
next_two(const char **at, const char *end)
{
    if (end - *at < 2)
        return -1;
    *at += 2;
    return two(*at - 2);
}

/* read_format(text): `pipeline.mapper.codegen.timeformat.TimeFormat.read`, if all numbers have all of their digits. */
static PyObject *
read_format(PyObject *callable, PyObject *const *arguments, size_t flags, PyObject *named)
{
    Reader *self = (Reader *)callable;
    Py_ssize_t length = 0, letters = 0;
    const char *at, *end, *format = ascii_of(self->format, &letters), *stop = format + letters;
    if (named != NULL || PyVectorcall_NARGS(flags) != 1 || (at = ascii_of(arguments[0], &length)) == NULL)
        return PyObject_Vectorcall(self->slow, arguments, flags, named);
    int found[128] = {0}, valid = 1;
    for (end = at + length; valid && format < stop; format++) {
        if (*format != '%') {
            valid = at < end && *at++ == *format;
            continue;
        }
        char directive = *++format; /* the constructor knows that there is one */
        int number = next_two(&at, end);
        if (directive == 'Y' && number >= 0) {
            int years = next_two(&at, end);
            number = years < 0 ? -1 : number * 100 + years;
        }
        found[(unsigned char)directive] = number;
        valid = number >= 0;
    }
    int64_t days = valid && at == end ? days_of(found['Y'], found['m'], found['d']) : INT64_MIN;
    if (days == INT64_MIN || found['H'] > 23 || found['M'] > 59 || found['S'] > 59)
        return PyObject_Vectorcall(self->slow, arguments, flags, named);
    return reading_of((((days * 24 + found['H']) * 60 + found['M']) * 60 + found['S']) * SECOND, 0, 0);
}

/* Whether a format has the directives Y, m and d, at most H, M and S in addition, and no other percent sign. */
static int
is_plain_format(PyObject *text)
{
    Py_ssize_t length;
    const char *at = ascii_of(text, &length);
    int found[128] = {0};
    if (at == NULL)
        return 0;
    for (const char *end = at + length; at < end; at++)
        if (*at == '%' && (++at == end || strchr("YmdHMS", *at) == NULL || found[(unsigned char)*at]++))
            return 0;
    return found['Y'] && found['m'] && found['d'];
}

/* --- ids ------------------------------------------------------------------------------------------------- */

static inline char
lower(char byte)
{
    return byte >= 'A' && byte <= 'Z' ? byte + 32 : byte;
}

static inline int
is_space(char byte)
{
    return byte == ' ' || (byte >= 9 && byte <= 13) || (byte >= 28 && byte <= 31);
}

static int
is_word(const Reader *self, const char *at, Py_ssize_t length)
{
    if (length > LONGEST_WORD || !(self->of_first[(unsigned char)lower(*at)] >> length & 1))
        return 0;
    for (Py_ssize_t n = 0; n < self->count; n++) {
        Py_ssize_t same = 0;
        if (self->lengths[n] != length)
            continue;
        while (same < length && lower(at[same]) == self->at[n][same])
            same++;
        if (same == length)
            return 1;
    }
    return 0;
}

/* is_placeholder(text): `pipeline.validator.placeholder_ids.is_placeholder`, whose words are given in lower case. False
 * for an ordinary id: ASCII, none of the words in any case, not beginning like a list, an object or the prefix of a
 * device's id, and without a space at either end. */
static PyObject *
is_placeholder(PyObject *callable, PyObject *const *arguments, size_t flags, PyObject *named)
{
    Reader *self = (Reader *)callable;
    Py_ssize_t length;
    const char *at;
    if (named != NULL || PyVectorcall_NARGS(flags) != 1 || (at = ascii_of(arguments[0], &length)) == NULL ||
        length == 0 || *at == '$' || *at == '[' || *at == '{' || is_space(*at) || is_space(at[length - 1]) ||
        is_word(self, at, length))
        return PyObject_Vectorcall(self->slow, arguments, flags, named);
    Py_RETURN_FALSE;
}

/* clean_uuid(text): `pipeline.mapper.codegen.runtime.clean_uuid`. */
static PyObject *
clean_uuid(PyObject *callable, PyObject *const *arguments, size_t flags, PyObject *named)
{
    Reader *self = (Reader *)callable;
    Py_ssize_t length;
    const char *at;
    if (named != NULL || PyVectorcall_NARGS(flags) != 1)
        return PyObject_Vectorcall(self->slow, arguments, flags, named);
    if (arguments[0] == Py_None)
        Py_RETURN_NONE;
    if ((at = ascii_of(arguments[0], &length)) == NULL || length > UUID_DIGITS)
        return PyObject_Vectorcall(self->slow, arguments, flags, named);
    if (length < UUID_DIGITS)
        Py_RETURN_NONE;
    int digits = 0; /* digits that are not 0: the nil uuid is left to Python */
    for (Py_ssize_t i = 0; i < length; i++) {
        int dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? at[i] != '-' : !is_digit(at[i]) && (at[i] < 'a' || at[i] > 'f'))
            return PyObject_Vectorcall(self->slow, arguments, flags, named);
        digits |= !dash && at[i] != '0';
    }
    return digits ? Py_NewRef(arguments[0]) : PyObject_Vectorcall(self->slow, arguments, flags, named);
}

/* --- the type -------------------------------------------------------------------------------------------- */

static int
take_words(Reader *self, PyObject *set)
{
    PyObject *iterator = PyObject_GetIter(set), *word;
    while (iterator != NULL && (word = PyIter_Next(iterator)) != NULL) {
        Py_ssize_t length;
        const char *at = ascii_of(word, &length);
        Py_DECREF(word); /* the set keeps it */
        if (at == NULL || length == 0 || length > LONGEST_WORD || self->count == MOST_WORDS) {
            Py_DECREF(iterator);
            PyErr_Format(PyExc_ValueError, "at most %d words of 1 to %d ASCII characters were expected", MOST_WORDS,
                         LONGEST_WORD);
            return -1;
        }
        self->at[self->count] = at;
        self->lengths[self->count++] = length;
        self->of_first[(unsigned char)*at] |= (uint64_t)1 << length;
    }
    Py_XDECREF(iterator);
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *
construct(PyTypeObject *type, PyObject *arguments, PyObject *named)
{
    const char *kind;
    PyObject *slow, *words = NULL, *format = NULL;
    static char *keywords[] = {"kind", "slow", "words", "format", NULL};
    if (!PyArg_ParseTupleAndKeywords(arguments, named, "sO|O!U", keywords, &kind, &slow, &PyFrozenSet_Type, &words,
                                     &format))
        return NULL;
    vectorcallfunc call = strcmp(kind, "iso") == 0           ? read_iso
                          : strcmp(kind, "format") == 0      ? read_format
                          : strcmp(kind, "placeholder") == 0 ? is_placeholder
                          : strcmp(kind, "uuid") == 0        ? clean_uuid
                                                             : NULL;
    if (call == NULL)
        return PyErr_Format(PyExc_ValueError, "the kind is iso, format, placeholder or uuid");
    if (call == read_format && (format == NULL || !is_plain_format(format)))
        return PyErr_Format(PyExc_ValueError, "the format has other directives than Y, m, d, H, M and S");
    Reader *self = (Reader *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->call = call;
    self->slow = Py_NewRef(slow);
    self->format = Py_XNewRef(format);
    self->words = words == NULL ? NULL : names_only(words);
    if (words != NULL && (self->words == NULL || take_words(self, self->words) < 0))
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void
dealloc(Reader *self)
{
    Py_CLEAR(self->slow);
    Py_CLEAR(self->words);
    Py_CLEAR(self->format);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

PyTypeObject Reader_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "pipeline.native._native.Reader",
    .tp_basicsize = sizeof(Reader),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Reader, call),
    .tp_call = PyVectorcall_Call,
    .tp_new = construct,
    .tp_dealloc = (destructor)dealloc,
};
