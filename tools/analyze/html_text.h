/* SPDX-License-Identifier: Apache-2.0 */
/* Text in HTML, whatever its bytes: markup is escaped; control characters and what is no UTF-8
 * become '?'. */
#ifndef BELAY_TOOLS_ANALYZE_HTML_TEXT_H
#define BELAY_TOOLS_ANALYZE_HTML_TEXT_H

#include <stdio.h>

/* For the content of an element and for the value of an attribute in double quotes. */
void html_text(FILE *file, const char *text);

/* For a JSON string, quotes not included, that may stand in a script element. */
void html_json_text(FILE *file, const char *text);

#endif /* BELAY_TOOLS_ANALYZE_HTML_TEXT_H */
