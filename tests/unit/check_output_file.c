/* SPDX-License-Identifier: Apache-2.0 */
/* A file that is written whole or not at all. */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/output_file.h"

static char folder[64];
static char path[96];

static void setup(void)
{
	strcpy(folder, "/tmp/check_output_file.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	(void)snprintf(path, sizeof(path), "%s/out", folder);
}

static void teardown(void)
{
	char command[96];

	(void)snprintf(command, sizeof(command), "rm -rf %s", folder);
	ck_assert_int_eq(system(command), 0);
}

static void write_file(const char *name, const char *text)
{
	FILE *file = fopen(name, "w");

	ck_assert_ptr_nonnull(file);
	ck_assert_int_ge(fputs(text, file), 0);
	ck_assert_int_eq(fclose(file), 0);
}

static const char *content_of(const char *name)
{
	static char text[64];
	FILE *file = fopen(name, "r");

	if (!file)
		return NULL;
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	ck_assert_int_eq(fclose(file), 0);
	return text;
}

/* Names in the folder, save "." and "..". */
static int count_names(void)
{
	DIR *dir = opendir(folder);
	int n = -2;

	ck_assert_ptr_nonnull(dir);
	while (readdir(dir))
		n++;
	ck_assert_int_eq(closedir(dir), 0);
	return n;
}

static void open_and_write(struct output_file *output, const char *name)
{
	*output = (struct output_file){0};
	ck_assert_int_eq(output_file_open(output, name), 0);
	ck_assert_int_ge(fputs("new", output->file), 0);
	ck_assert_int_eq(fflush(output->file), 0);
}

START_TEST(a_new_file_appears_when_it_is_complete)
{
	struct output_file output;

	open_and_write(&output, path);
	ck_assert_ptr_null(content_of(path));
	ck_assert_int_eq(output_file_commit(&output), 0);
	ck_assert_str_eq(content_of(path), "new");
	ck_assert_int_eq(count_names(), 1);
	ck_assert_ptr_null(output.file);
}
END_TEST

START_TEST(an_old_file_stands_until_then_and_keeps_its_mode)
{
	struct output_file output;
	struct stat about;

	write_file(path, "old");
	ck_assert_int_eq(chmod(path, 0640), 0);
	open_and_write(&output, path);
	ck_assert_str_eq(content_of(path), "old");
	ck_assert_int_eq(output_file_commit(&output), 0);
	ck_assert_str_eq(content_of(path), "new");
	ck_assert_int_eq(stat(path, &about), 0);
	ck_assert_int_eq(about.st_mode & 07777, 0640);
}
END_TEST

START_TEST(what_is_dropped_leaves_nothing)
{
	struct output_file output;

	write_file(path, "old");
	open_and_write(&output, path);
	output_file_discard(&output);
	ck_assert_str_eq(content_of(path), "old");
	ck_assert_int_eq(count_names(), 1);
	output_file_discard(&output);
}
END_TEST

START_TEST(a_link_stays_a_link)
{
	struct output_file output;
	char link[96];
	struct stat about;

	(void)snprintf(link, sizeof(link), "%s/link", folder);
	write_file(path, "old");
	ck_assert_int_eq(symlink("out", link), 0);
	open_and_write(&output, link);
	ck_assert_int_eq(output_file_commit(&output), 0);
	ck_assert_str_eq(content_of(path), "new");
	ck_assert_int_eq(lstat(link, &about), 0);
	ck_assert(S_ISLNK(about.st_mode));
}
END_TEST

START_TEST(a_link_to_nowhere_makes_the_file_it_leads_to)
{
	struct output_file output;
	char link[96];

	(void)snprintf(link, sizeof(link), "%s/link", folder);
	ck_assert_int_eq(symlink("out", link), 0);
	open_and_write(&output, link);
	ck_assert_int_eq(output_file_commit(&output), 0);
	ck_assert_str_eq(content_of(path), "new");
}
END_TEST

START_TEST(a_device_is_written_in_place)
{
	struct output_file output;

	open_and_write(&output, "/dev/null");
	ck_assert_ptr_null(output.path);
	ck_assert_int_eq(output_file_commit(&output), 0);
}
END_TEST

START_TEST(a_full_disk_is_an_error_of_the_commit)
{
	struct output_file output = {0};

	ck_assert_int_eq(output_file_open(&output, "/dev/full"), 0);
	ck_assert_int_ge(fputs("new", output.file), 0);
	ck_assert_int_eq(output_file_commit(&output), -1);
	ck_assert_ptr_null(output.file);
}
END_TEST

START_TEST(a_folder_that_is_not_there_is_an_error_of_the_opening)
{
	struct output_file output = {.path = path};

	strcat(path, "/none");
	errno = 0;
	ck_assert_int_eq(output_file_open(&output, path), -1);
	ck_assert_int_eq(errno, ENOENT);
	ck_assert_ptr_eq(output.path, path);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("output_file");
	TCase *tests = tcase_create("output file");

	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_test(tests, a_new_file_appears_when_it_is_complete);
	tcase_add_test(tests, an_old_file_stands_until_then_and_keeps_its_mode);
	tcase_add_test(tests, what_is_dropped_leaves_nothing);
	tcase_add_test(tests, a_link_stays_a_link);
	tcase_add_test(tests, a_link_to_nowhere_makes_the_file_it_leads_to);
	tcase_add_test(tests, a_device_is_written_in_place);
	tcase_add_test(tests, a_full_disk_is_an_error_of_the_commit);
	tcase_add_test(tests, a_folder_that_is_not_there_is_an_error_of_the_opening);
	suite_add_tcase(s, tests);
	return s;
}

#include "check_main.h"
