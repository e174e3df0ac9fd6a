/* Writes the time and uuid of each event of a run into the room before its end, as `pipeline.encoder.buffer` does. */

#include "native.h"

#define NAMESPACE 16
#define UUID 16
#define DAY 86400000000
#define LAST 253402300800000000 /* the first µs of the year 10000 */

static const char after_time[] = "\",\"uuid\":\"";
enum { AFTER = sizeof(after_time) - 1, DIGITS = 36, END = 3 };

char *
put_number(char *to, unsigned number, int digits)
{
    for (int i = digits; i-- > 0; number /= 10)
        to[i] = (char)('0' + number % 10);
    return to + digits;
}

void
put_date(char *to, int64_t days)
{
    days += 719468; /* since 0000-03-01, so that a leap day ends its year */
    unsigned era = (unsigned)(days / 146097), of_era = (unsigned)(days % 146097);
    unsigned year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    unsigned of_year = of_era - (365 * year + year / 4 - year / 100);
    unsigned shifted = (5 * of_year + 2) / 153;
    unsigned day = of_year - (153 * shifted + 2) / 5 + 1, month = shifted < 10 ? shifted + 3 : shifted - 9;
    to = put_number(to, year + era * 400 + (month <= 2), 4);
    *to++ = '-';
    to = put_number(to, month, 2);
    *to++ = '-';
    to = put_number(to, day, 2);
    *to = 'T';
}

/* `pipeline.timestamps.format_utc`; returns its length. `date` caches the text of the day `dated` between calls. */
static Py_ssize_t
put_time(char to[27], int64_t us, int64_t *dated, char date[11])
{
    int64_t day = us / DAY, of_day = us % DAY;
    if (day != *dated) {
        put_date(date, day);
        *dated = day;
    }
    memcpy(to, date, 11);
    unsigned seconds = (unsigned)(of_day / 1000000), fraction = (unsigned)(of_day % 1000000);
    char *end = put_number(to + 11, seconds / 3600, 2);
    *end++ = ':';
    end = put_number(end, seconds / 60 % 60, 2);
    *end++ = ':';
    end = put_number(end, seconds % 60, 2);
    if (fraction) {
        *end++ = '.';
        end = fraction % 1000 ? put_number(end, fraction, 6) : put_number(end, fraction / 1000, 3);
    }
    *end++ = 'Z';
    return end - to;
}

static void
put_uuid(char *to, const unsigned char *raw)
{
    static const char hex[] = "0123456789abcdef";
    for (int i = 0; i < UUID; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *to++ = '-';
        *to++ = hex[raw[i] >> 4];
        *to++ = hex[raw[i] & 15];
    }
}

/* fill(text, ends, times, uuids): write each event's time and uuid into the room before its end. */
PyObject *
fill(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 4 || !PyByteArray_CheckExact(arguments[0]) || !PyList_CheckExact(arguments[1]) ||
        !PyList_CheckExact(arguments[2]) || !PyBytes_CheckExact(arguments[3]) ||
        PyList_GET_SIZE(arguments[1]) != PyList_GET_SIZE(arguments[2]) ||
        PyList_GET_SIZE(arguments[1]) * UUID != PyBytes_GET_SIZE(arguments[3])) {
        return PyErr_Format(PyExc_TypeError, "text, ends, times and uuids were expected");
    }
    char *text = PyByteArray_AS_STRING(arguments[0]);
    const unsigned char *raw = (const unsigned char *)PyBytes_AS_STRING(arguments[3]);
    int64_t dated = -1;
    char date[11], time[27];
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(arguments[1]); i++) {
        PyObject *end_of = PyList_GET_ITEM(arguments[1], i), *time_of = PyList_GET_ITEM(arguments[2], i);
        if (!PyLong_Check(end_of) || !PyLong_Check(time_of)) /* Python would convert anything else */
            return PyErr_Format(PyExc_TypeError, "ends and times are whole numbers");
        Py_ssize_t end = PyLong_AsSsize_t(end_of);
        int64_t us = PyLong_AsLongLong(time_of);
        if (PyErr_Occurred())
            return NULL;
        if (us < 0 || us >= LAST)
            return PyErr_Format(PyExc_ValueError, "a time between 1970 and 9999 was expected");
        Py_ssize_t length = put_time(time, us, &dated, date);
        Py_ssize_t room = length + AFTER + DIGITS + END;
        if (end < room || end > PyByteArray_GET_SIZE(arguments[0]))
            return PyErr_Format(PyExc_ValueError, "no room before %zd", end);
        char *to = text + end - room;
        memcpy(to, time, (size_t)length);
        put_uuid(to + length + AFTER, raw + i * UUID);
    }
    Py_RETURN_NONE;
}

/* uuids5(namespace, keys): the raw uuids of version 5 of many keys, one after the other. */
PyObject *
uuids5(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 2 || !PyBytes_CheckExact(arguments[0]) || PyBytes_GET_SIZE(arguments[0]) != NAMESPACE ||
        !PyList_CheckExact(arguments[1])) {
        return PyErr_Format(PyExc_TypeError, "a namespace and a list of keys were expected");
    }
    const unsigned char *space = (const unsigned char *)PyBytes_AS_STRING(arguments[0]);
    Py_ssize_t keys = PyList_GET_SIZE(arguments[1]);
    PyObject *uuids = PyBytes_FromStringAndSize(NULL, keys * UUID);
    if (uuids == NULL)
        return NULL;
    unsigned char *to = (unsigned char *)PyBytes_AS_STRING(uuids);
    for (Py_ssize_t i = 0; i < keys; i++, to += UUID) {
        if (keys != PyList_GET_SIZE(arguments[1])) { /* by a codec written in Python */
            Py_DECREF(uuids);
            return PyErr_Format(PyExc_RuntimeError, "the keys changed while they were read");
        }
        PyObject *key = PyList_GET_ITEM(arguments[1], i), *encoded = NULL;
        Py_ssize_t length;
        const char *text = PyUnicode_AsUTF8AndSize(key, &length);
        if (text == NULL) { /* half of a surrogate pair, as `pipeline.uuids.Hasher` encodes it */
            PyErr_Clear();
            encoded = PyUnicode_AsEncodedString(key, "utf-8", "surrogatepass");
            if (encoded == NULL) {
                Py_DECREF(uuids);
                return NULL;
            }
            text = PyBytes_AS_STRING(encoded);
            length = PyBytes_GET_SIZE(encoded);
        }
        unsigned char digest[20];
        sha1_of(space, NAMESPACE, (const unsigned char *)text, (size_t)length, digest);
        Py_XDECREF(encoded);
        memcpy(to, digest, UUID);
        to[6] = (to[6] & 0x0F) | 0x50;
        to[8] = (to[8] & 0x3F) | 0x80;
    }
    return uuids;
}
