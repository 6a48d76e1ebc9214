/* Messages of C code of the vendor's compiler flow. docs/crt.md */
#ifndef TSM_LIB_LOG_H
#define TSM_LIB_LOG_H

#include <stdint.h>

/* Their number is published, and the names of the first and of the error; the other names are proposed. */
typedef enum KcoreLogLevel {
    KCORE_LOG_DEBUG = 0,
    KCORE_LOG_INFO = 1,
    KCORE_LOG_WARN = 2,
    KCORE_LOG_ERROR = 3,
    KCORE_LOG_FATAL = 4,
    KCORE_LOG_OFF = 5,
} KcoreLogLevel;

/* Prints the line `file:line: function: ...`; nothing for a level below KCORE_LOG_WARN. */
void tsm_ep_log(const char *file, const char *function, uint32_t line, uint32_t level, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

#endif
