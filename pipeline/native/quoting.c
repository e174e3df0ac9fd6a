/* Texts as JSON strings, as msgspec writes them. */

#include "native.h"

/* How many bytes more a byte takes in a JSON string. */
static const unsigned char more[256] = {
    5, 5, 5, 5, 5, 5, 5, 5, 1, 1, 1, 5, 1, 1, 5, 5, /* \b \t \n \f \r have short escapes */
    5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5,
    ['"'] = 1, ['\\'] = 1,
};

Py_ssize_t
quoted_length(const char *at, Py_ssize_t length)
{
    Py_ssize_t quoted = length + 2;
    for (const char *end = at + length; at < end; at++)
        quoted += more[(unsigned char)*at];
    return quoted;
}

char *
write_quoted(char *to, const char *at, Py_ssize_t length, Py_ssize_t quoted)
{
    static const char hex[] = "0123456789abcdef", letters[] = "btn.fr";
    *to++ = '"';
    if (quoted == length + 2) {
        memcpy(to, at, (size_t)length);
        to += length;
    }
    else
        for (const char *end = at + length; at < end; at++) {
            unsigned char byte = (unsigned char)*at;
            if (more[byte])
                *to++ = '\\';
            if (more[byte] == 5) {
                memcpy(to, "u00", 3);
                to[3] = hex[byte >> 4];
                to[4] = hex[byte & 15];
                to += 5;
            }
            else
                *to++ = more[byte] && byte < 0x20 ? letters[byte - 8] : (char)byte;
        }
    *to++ = '"';
    return to;
}
