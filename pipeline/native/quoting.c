/* Writes text as JSON strings, exactly as msgspec does. */

#include "native.h"

/* How many extra bytes a byte takes in a JSON string. */
static const unsigned char more[256] = {
    5, 5, 5, 5, 5, 5, 5, 5, 1, 1, 1, 5, 1, 1, 5, 5, /* \b \t \n \f \r have short escapes */
    5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5,
    ['"'] = 1, ['\\'] = 1,
};

/* Sixteen bytes at a time: compilers turn this into vector instructions if the processor has them. */
typedef unsigned char Sixteen __attribute__((vector_size(16)));

static inline Sixteen
sixteen_at(const char *at)
{
    Sixteen bytes;
    memcpy(&bytes, at, 16);
    return bytes;
}

/* 0xff for each byte that gets a backslash before it. */
static inline Sixteen
escaped(Sixteen bytes)
{
    return (Sixteen)(bytes == '"') | (Sixteen)(bytes == '\\');
}

static inline Sixteen
controls(Sixteen bytes)
{
    return (Sixteen)(bytes < 0x20);
}

static inline int
any(Sixteen mask)
{
    uint64_t halves[2];
    memcpy(halves, &mask, 16);
    return (halves[0] | halves[1]) != 0;
}

/* How many bytes of a mask are 0xff. */
static inline int
count(Sixteen mask)
{
    uint64_t halves[2];
    memcpy(halves, &mask, 16);
    return (__builtin_popcountll(halves[0] & 0x0101010101010101u) +
            __builtin_popcountll(halves[1] & 0x0101010101010101u));
}

Py_ssize_t
quoted_length(const char *at, Py_ssize_t length)
{
    Py_ssize_t quoted = length + 2;
    const char *end = at + length;
    while (at < end) {
        const char *stop = end - at >= 16 ? at + 16 : end;
        if (stop - at == 16) {
            Sixteen bytes = sixteen_at(at);
            if (!any(controls(bytes))) {
                quoted += count(escaped(bytes));
                at = stop;
                continue;
            }
        }
        for (; at < stop; at++)
            quoted += more[(unsigned char)*at];
    }
    return quoted;
}

char *
write_plain(char *to, const char *at, Py_ssize_t length)
{
    *to = '"';
    to[length + 1] = '"';
    char *next = to + 1;
    if (length < 8) {
        for (Py_ssize_t i = 0; i < length; i++) {
            if (more[(unsigned char)at[i]])
                return NULL;
            next[i] = at[i];
        }
        return next + length + 1;
    }
    if (length < 16) { /* the first and the last eight bytes, which overlap */
        char ends[16];
        memcpy(ends, at, 8);
        memcpy(ends + 8, at + length - 8, 8);
        Sixteen bytes = sixteen_at(ends);
        if (any(escaped(bytes) | controls(bytes)))
            return NULL;
        memcpy(next, ends, 8);
        memcpy(next + length - 8, ends + 8, 8);
        return next + length + 1;
    }
    for (Py_ssize_t done = 0;; done += 16) {
        if (done > length - 16)
            done = length - 16; /* the last bytes, some of which are already written */
        Sixteen bytes = sixteen_at(at + done);
        if (any(escaped(bytes) | controls(bytes)))
            return NULL;
        memcpy(next + done, &bytes, 16);
        if (done == length - 16)
            return next + length + 1;
    }
}

char *
write_quoted(char *to, const char *at, Py_ssize_t length)
{
    static const char hex[] = "0123456789abcdef", letters[] = "btn.fr";
    const char *end = at + length;
    *to++ = '"';
    while (at < end) {
        const char *stop = end - at >= 16 ? at + 16 : end;
        if (stop - at == 16) {
            Sixteen bytes = sixteen_at(at);
            if (!any(escaped(bytes) | controls(bytes))) {
                memcpy(to, &bytes, 16);
                at = stop;
                to += 16;
                continue;
            }
        }
        for (; at < stop; at++) {
            unsigned char byte = (unsigned char)*at;
            *to = '\\'; /* the byte itself replaces it if it needs none: no branch to predict */
            to += more[byte] != 0;
            if (byte >= 0x20)
                *to++ = (char)byte;
            else if (more[byte] == 5) {
                memcpy(to, "u00", 3);
                to[3] = hex[byte >> 4];
                to[4] = hex[byte & 15];
                to += 5;
            }
            else
                *to++ = letters[byte - 8];
        }
    }
    *to++ = '"';
    return to;
}
