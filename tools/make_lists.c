/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the texts that are made from the lists of the source: `make lists` writes them into docs/,
 * a test compares. Not a command of belay: it looks inside the library, where the lists are.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/belay.h"
#include "runtime/settings.h"

#define MADE_FROM "made from %s by `make lists`; do not edit"

static const struct {
	const char *field;
	int agree;
} settings[SETTINGS_COUNT] = {
#define BELAY_SETTING(field, name, type, default_, min, max, agree, text)                          \
	[SETTING_##field] = {#field, agree},
#include "runtime/settings.def"
#undef BELAY_SETTING
};

static const struct {
	int value;
	const char *name;
	enum belay_status_class status_class;
	const char *text;
	const char *advice;
} statuses[] = {
#define BELAY_STATUS(value, name, class_, text, advice)                                            \
	{value, "BELAY_" #name, BELAY_CLASS_##class_, text, advice},
#include "runtime/status.def"
#undef BELAY_STATUS
};

static const struct {
	const char *name;
	const char *text;
} classes[] = {
	[BELAY_CLASS_DONE] = {"DONE", "success"},
	[BELAY_CLASS_CALLER] =
		{"CALLER",
		 "the caller's mistake; nothing was started: correct the call and repeat it"},
	[BELAY_CLASS_LOCAL] = {"LOCAL", "this process or machine lacks something"},
	[BELAY_CLASS_GROUP] = {"GROUP", "the ranks did not come together or agree in time"},
	[BELAY_CLASS_VERDICT] =
		{"VERDICT", "the communicator's one verdict; final, the same on every survivor"},
};

/* The forms of the two settings that are more than a value; the same words in both texts. */
static const char *const fault_lines[] = {
	"rank=R,seq=S,kind=K[,at=A]",
	"R  a rank, or * for every rank",
	"S  a call: A, A:B, A:B:STEP, or * (the default) for every call",
	"K  drop, delay:MS, kill, stop:MS, corrupt, flag, skip, extra, swap, count, dtype, op, "
	"map-fail,",
	"   selftest, nccl-error, nccl-hang, cuda-sticky, starve:MS or slow-push; MS in "
	"milliseconds, "
	"0.5 too",
	"A  just before which step: handshake, stage, push, wait, reduce, rescue, verdict or "
	"destroy;",
	"   by default push for drop and corrupt, handshake for map-fail, selftest and slow-push, "
	"else stage",
};

static const char *const tune_lines[] = {
	"# comment",
	"ranks=N twoshot_from=BYTES",
	"ranks=N topology=HOW up_to=BYTES algorithm=A other=A blocks=B threads=T",
	"ranks=N programmatic=yes|no",
	"ranks=N staged=yes|no",
};

#define LINES(table) (sizeof(table) / sizeof((table)[0]))

#define PRECEDENCE                                                                                 \
	"Each setting is a variable of the environment and a field of struct belay_config. The "   \
	"environment wins over the "                                                               \
	"config, the config over the default. All values are text. A bad value ends creation "     \
	"with BELAY_E_SETTING and a "                                                              \
	"message that names it. An unknown BELAY_ variable is warned about."

/* What makes no communicator is no setting of one, and in no table. */
#define SWITCH_TEXT                                                                                \
	"belongs to libbelay-nccl, which reads it before there is a communicator: 1 hands every "  \
	"call straight to NCCL. It has no config field."

static void print_block(const char *const *lines, size_t count)
{
	printf("\n```\n");
	for (size_t i = 0; i < count; i++)
		printf("%s\n", lines[i]);
	printf("```\n");
}

static void print_settings(void)
{
	char expected[200];

	printf("<!-- SPDX-License-Identifier: Apache-2.0 -->\n<!-- " MADE_FROM " -->\n",
	       "runtime/settings.def");
	printf("# Settings\n\n" PRECEDENCE
	       " `belay-info` prints the values in effect and where each came from.\n\n");
	printf("| variable | config field | default | value | equal on all ranks | meaning |\n");
	printf("| --- | --- | --- | --- | --- | --- |\n");
	for (int i = 0; i < SETTINGS_COUNT; i++) {
		enum setting_index index = (enum setting_index)i;
		const char *fallback = setting_default(index);

		printf("| `%s` | `%s` | %s%s%s | %s | %s | %s |\n", setting_name(index),
		       settings[i].field, *fallback ? "`" : "", *fallback ? fallback : "empty",
		       *fallback ? "`" : "", setting_expected(index, expected, sizeof(expected)),
		       settings[i].agree ? "yes" : "no", setting_help(index));
	}
	printf("\n`BELAY_DISABLE` " SWITCH_TEXT "\n");
	printf("\n## BELAY_FAULT\n\nUp to 16 faults, separated by `;`, each\n");
	print_block(fault_lines, LINES(fault_lines));
	printf("\n## BELAY_TUNE\n\nA file of such lines; the built-in value stands where it has "
	       "none:\n");
	print_block(tune_lines, LINES(tune_lines));
	printf("\nThe first is for host memory, each N at most once: calls of at least BYTES (a "
	       "number, "
	       "or with K, M or G) go two-shot. The others are for devices: "
	       "[path-choice.md](path-choice.md) has the words and the rules.\n");
}

/* Text for roff: no line may begin with a control character, and a hyphen is a minus. */
static void print_roff(const char *text)
{
	if (*text == '.' || *text == '\'')
		fputs("\\&", stdout);
	for (; *text; text++) {
		if (*text == '\\' || *text == '-')
			putchar('\\');
		putchar(*text == '\\' ? 'e' : *text);
	}
}

static void print_roff_block(const char *const *lines, size_t count)
{
	printf(".PP\n.nf\n");
	for (size_t i = 0; i < count; i++) {
		print_roff(lines[i]);
		putchar('\n');
	}
	printf(".fi\n");
}

static void print_settings_man(void)
{
	char expected[200];

	printf(".\\\" SPDX-License-Identifier: Apache-2.0\n.\\\" " MADE_FROM "\n",
	       "runtime/settings.def");
	printf(".TH BELAY\\-SETTINGS 7 2026-01-01 \"belay %s\"\n", belay_version());
	printf(".SH NAME\nbelay\\-settings \\- environment variables and config fields of "
	       "libbelay\n");
	printf(".SH DESCRIPTION\n");
	print_roff(PRECEDENCE);
	printf("\n.PP\n.BR belay\\-info (1)\nprints the values in effect and where each came "
	       "from.\n.SH SETTINGS\n");
	for (int i = 0; i < SETTINGS_COUNT; i++) {
		enum setting_index index = (enum setting_index)i;
		const char *fallback = setting_default(index);

		printf(".TP\n.BR %s \" (%s)\"\n", setting_name(index), settings[i].field);
		print_roff(setting_help(index));
		printf(".\nValue: ");
		print_roff(setting_expected(index, expected, sizeof(expected)));
		printf(".\nDefault: ");
		print_roff(*fallback ? fallback : "empty");
		printf(".\n%s", settings[i].agree ? "The same on all ranks.\n" : "");
	}
	printf(".PP\n.B BELAY_DISABLE\n");
	print_roff(SWITCH_TEXT);
	printf("\n.SH FAULT INJECTION\n.B BELAY_FAULT\nholds up to 16 faults, separated by "
	       "semicolons, each\n");
	print_roff_block(fault_lines, LINES(fault_lines));
	printf(".SH TUNING FILE\nThe file of\n.B BELAY_TUNE\nis made of such lines:\n");
	print_roff_block(tune_lines, LINES(tune_lines));
	printf(".PP\nThe first is for host memory, each N at most once: calls of at least BYTES (a "
	       "number, or with K, M or G) go two\\-shot.\n"
	       "The others are for devices. N is from 1 to 16; HOW is one_device, nvlink, pcie or "
	       "mixed; A is oneshot\\-packets, oneshot\\-wire, twoshot\\-wire, twoshot\\-pull or "
	       "island, of which other takes oneshot\\-packets or twoshot\\-pull; B is from 1 to "
	       "256, T a multiple of 32 "
	       "up to 512.\n"
	       "The rows of one N and HOW stand together, by ascending BYTES, and the last one "
	       "counts for all above.\n"
	       "Where the file says nothing, the built\\-in values stand.\n");
	printf(".SH SEE ALSO\n.BR belay\\-bench (1),\n.BR belay\\-info (1)\n");
}

static void print_statuses(void)
{
	printf("<!-- SPDX-License-Identifier: Apache-2.0 -->\n<!-- " MADE_FROM " -->\n",
	       "runtime/status.def");
	printf("# Statuses\n\nEvery function of `belay.h` that can fail returns 0 or one of these. "
	       "`belay_status_name()`, "
	       "`belay_status_text()` and `belay_status_class()` tell about a number.\n\n");
	printf("| class | meaning |\n| --- | --- |\n");
	for (size_t i = 0; i < LINES(classes); i++)
		printf("| `BELAY_CLASS_%s` | %s |\n", classes[i].name, classes[i].text);
	printf("\n| number | name | class | meaning | what to do |\n| --- | --- | --- | --- | --- "
	       "|\n");
	for (size_t i = 0; i < LINES(statuses); i++)
		printf("| %d | `%s` | %s | %s | %s |\n", statuses[i].value, statuses[i].name,
		       classes[statuses[i].status_class].name, statuses[i].text,
		       statuses[i].advice);
}

static const struct {
	const char *name;
	void (*print)(void);
} lists[] = {
	{"settings.md", print_settings},
	{"belay-settings.7", print_settings_man},
	{"statuses.md", print_statuses},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc == 2 && i < LINES(lists); i++) {
		if (strcmp(argv[1], lists[i].name) != 0)
			continue;
		lists[i].print();
		return fflush(stdout) || ferror(stdout) ? 4 : 0;
	}
	fprintf(stderr, "make_lists: expected settings.md, belay-settings.7 or statuses.md\n");
	return 2;
}
