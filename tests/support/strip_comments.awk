# SPDX-License-Identifier: Apache-2.0
# Prints C without comments and with empty string literals, each line as "FILE:LINE: code".
FNR == 1 { inside = 0 }
{
	line = $0
	code = ""
	while (line != "") {
		if (inside) {
			at = index(line, "*/")
			if (!at)
				break
			line = substr(line, at + 2)
			inside = 0
		} else if (match(line, /\/\*|\/\/|"([^"\\]|\\.)*"|'([^'\\]|\\.)+'/)) {
			token = substr(line, RSTART, 2)
			code = code substr(line, 1, RSTART - 1)
			rest = substr(line, RSTART + RLENGTH)
			if (token == "//")
				break
			if (token == "/*")
				inside = 1
			else
				code = code (substr(token, 1, 1) == "\"" ? "\"\"" : "''")
			line = rest
		} else {
			code = code line
			break
		}
	}
	if (code ~ /[^ \t]/)
		print FILENAME ":" FNR ": " code
}
