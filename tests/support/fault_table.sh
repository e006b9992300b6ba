#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints a document with a table made from RESULTS (tests/support/fault_results.h) between its lines
# "<!-- table of results: begin -->" and "<!-- table of results: end -->".
#
# usage: fault_table.sh DOCUMENT RESULTS
set -eu

document=$1
results=$2

# shellcheck disable=SC2016 # the dollars are jq's
table='
# In the order of rows, then of cases: 3 before 12 before F01.
def order: split(" ")[0] // "" | if test("^[0-9]") then [0, (capture("^(?<n>[0-9]+)").n | tonumber)]
	elif test("^F") then [1, (ltrimstr("F") | tonumber)] else [2, 0] end;

# The rank and the call do not make another fault of it.
def fault: gsub("seq=[0-9:*]+,"; "") | gsub("rank="; "rank ") | gsub(",?kind="; ": ") | gsub(",at="; " at ")
	| if (split(";") | length) > 4 then "many faults in turn" else gsub(";"; "; ") end
	| gsub("\\*"; "\\*");
def calls: [.[].injected | scan("seq=([0-9]+)") | .[0] | tonumber] | unique
	| if length == 0 then "" elif length > 6 then "\(.[0]) to \(.[-1])" else map(tostring) | join(", ") end;

def ranks: (map(select(.ranks > 0 and (.one_core | not)).ranks) | unique | map(tostring) | join(", ")) as $free
	| (map(select(.ranks > 0 and .one_core).ranks) | unique | map(tostring) | join(", ")) as $one
	| [$free | select(. != "")] + [$one | select(. != "") | "\(.) on one core"] | join("; ");

def outcomes: group_by(.outcome) | map(.[0].outcome) | join(", ");
def verdicts: outcomes + ([.[] | select(.passed | not)] | if length > 0 then ", \(length) FAILED" else "" end);

def number: . * 100 | round | . / 100 | tostring;
def duration: if . < 1e6 then "\(. / 1e3 | round) us" elif . < 1e9 then "\(. / 1e6 | number) ms" else "\(. / 1e9 | number) s" end;
def times: [.[].ns | select(. > 0)] | sort
	| if length == 0 then " | " else "\(.[((length - 1) / 2 | floor)] | duration) | \(.[-1] | duration)" end;

# A test that runs no ranks has a line for itself; where it runs some, a line without is a variant that was left out.
def own: group_by([.program, .test]) | map((map(select(.ranks > 0)) | select(length > 0)) // .) | add;

"| row, case | test | injected | ranks | at call | outcome | median | worst | runs |",
"| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
(own | map(. + {fault: (.injected | fault)}) | group_by([.shows, .program, .test, .fault]) | sort_by(.[0].shows | order)[]
	| "| \(.[0].shows | gsub(" "; ", ")) | \(.[0].program): \(.[0].test) | \(.[0].fault) | \(ranks) | \(calls) | \(verdicts) | \(times) | \(length) |")
'

awk '{ print } /^<!-- table of results: begin -->$/ { exit }' "$document"
echo
jq -sr "$table" "$results"
echo
awk '/^<!-- table of results: end -->$/ { go = 1 } go' "$document"
