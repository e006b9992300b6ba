/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/output_file.h"

/* Whoever may write a new file there; the umask takes its part away. */
#define NEW_FILE_MODE 0666

/* The folder of a path, to be freed. NULL: no memory. */
static char *folder_of(const char *path)
{
	char *copy = strdup(path);
	char *folder = copy ? strdup(dirname(copy)) : NULL;

	free(copy);
	return folder;
}

/* A name beside `path` that no other run uses, to be freed. NULL: no memory. */
static char *name_beside(const char *path)
{
	char *name;

	return asprintf(&name, "%s.%ld.part", path, (long)getpid()) < 0 ? NULL : name;
}

/* A file without a name in the folder of `path`. Not every file system can, and naming it needs
 * /proc. */
static int open_nameless(const char *path)
{
	char *folder = access("/proc/self/fd", X_OK) == 0 ? folder_of(path) : NULL;
	int fd = -1;

	if (folder)
		fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, NEW_FILE_MODE);
	free(folder);
	return fd;
}

static int open_beside(const char *path, char **ret_temporary)
{
	char *name = name_beside(path);
	int fd;

	if (!name)
		return -1;
	fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, NEW_FILE_MODE);
	if (fd < 0)
		free(name);
	else
		*ret_temporary = name;
	return fd;
}

static int open_in_place(struct output_file *output, const char *path)
{
	FILE *file = fopen(path, "we");

	if (!file)
		return -1;
	*output = (struct output_file){.file = file};
	return 0;
}

/* `mode`: of the file that will be replaced; 0: there is none. */
static int open_new(struct output_file *output, const char *path, mode_t mode)
{
	struct output_file new = {.path = strdup(path)};
	int fd = new.path ? open_nameless(path) : -1;

	if (new.path && fd < 0)
		fd = open_beside(path, &new.temporary);
	if (fd >= 0 && (!mode || fchmod(fd, mode & 07777) == 0))
		new.file = fdopen(fd, "w");
	if (!new.file) {
		if (fd >= 0)
			(void)close(fd);
		output_file_discard(&new);
		return -1;
	}
	*output = new;
	return 0;
}

int output_file_open(struct output_file *output, const char *path)
{
	char resolved[PATH_MAX];
	struct stat about;

	if (stat(path, &about) != 0)
		/* A link to nowhere is followed by the plain way only. */
		return errno == ENOENT && lstat(path, &about) != 0 ? open_new(output, path, 0)
								   : open_in_place(output, path);
	if (!S_ISREG(about.st_mode))
		return open_in_place(output, path);
	/* The folder would let us replace what we may not write. */
	if (access(path, W_OK) != 0 || !realpath(path, resolved))
		return -1;
	return open_new(output, resolved, about.st_mode);
}

/* Gives a file without a name the temporary one. */
static int name_it(struct output_file *output)
{
	char self[64];
	char *name = name_beside(output->path);

	if (!name)
		return -1;
	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", fileno(output->file));
	if (linkat(AT_FDCWD, self, AT_FDCWD, name, AT_SYMLINK_FOLLOW) != 0) {
		free(name);
		return -1;
	}
	output->temporary = name;
	return 0;
}

int output_file_commit(struct output_file *output)
{
	int failed = fflush(output->file) != 0 || ferror(output->file);

	if (!failed && output->path && !output->temporary)
		failed = name_it(output) != 0;
	/* Some file systems tell only now that the disk is full. */
	failed |= fclose(output->file) != 0;
	output->file = NULL;
	if (!failed && output->path)
		failed = rename(output->temporary, output->path) != 0;
	if (!failed) {
		free(output->temporary);
		output->temporary = NULL;
	}
	output_file_discard(output);
	return failed ? -1 : 0;
}

void output_file_discard(struct output_file *output)
{
	int error = errno; /* the caller tells of what went wrong before */

	if (output->file)
		(void)fclose(output->file);
	if (output->temporary)
		(void)unlink(output->temporary);
	free(output->temporary);
	free(output->path);
	*output = (struct output_file){0};
	errno = error;
}
