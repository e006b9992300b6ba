/* SPDX-License-Identifier: Apache-2.0 */
/* See nccl_library.h. */
#include "config.h"

#include "runtime/cuda/nccl_library.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define USUAL_NAME "libnccl.so.2"
#define ANY_NAME   "libnccl.so"

/* ---- finding --------------------------------------------------------------------------------- */

/* Stops at a loaded object whose file is called libnccl.so*, and remembers its path. */
static int is_nccl(struct dl_phdr_info *object, size_t size, void *ret_path)
{
	const char *name = strrchr(object->dlpi_name, '/');

	(void)size;
	name = name ? name + 1 : object->dlpi_name;
	if (strncmp(name, ANY_NAME, strlen(ANY_NAME)) != 0)
		return 0;
	snprintf(ret_path, PATH_MAX, "%s", object->dlpi_name);
	return 1;
}

/* The one that the process has, by its usual name or by the name of its file; NULL: none. Not by a
 * look for the functions themselves: a library that stands before NCCL defines them too. */
static void *open_loaded(void)
{
	void *handle = dlopen(USUAL_NAME, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
	char path[PATH_MAX];

	if (!handle && dl_iterate_phdr(is_nccl, path))
		handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
	return handle;
}

static void *open_file(const char *file, char *ret_why, size_t size)
{
	void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	const char *error;

	if (handle)
		return handle;
	error = dlerror();
	snprintf(ret_why, size, "cannot load NCCL: %s", error ? error : file);
	return NULL;
}

/* ---- what was found -------------------------------------------------------------------------- */

/* The function by that name, as whatever type it is assigned to; NULL with the reason. */
static void *find_function(void *handle, const char *name, char *ret_why, size_t size)
{
	void *function = dlsym(handle, name);

	if (!function)
		snprintf(ret_why, size, "the NCCL found has no %s; NCCL 2.14 or newer is needed",
			 name);
	return function;
}

static int find_functions(void *handle, struct nccl_library *library, char *ret_why, size_t size)
{
#define FIND(member, function) {&library->member, #function},
	/* All are pointers to functions, which POSIX lets one store as dlsym() returns them. */
	const struct {
		void *place;
		const char *name;
	} wanted[] = {NCCL_LIBRARY_FUNCTIONS(FIND)};
#undef FIND

	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		void *function = find_function(handle, wanted[i].name, ret_why, size);

		if (!function)
			return -1;
		memcpy(wanted[i].place, &function, sizeof(function));
	}
	return 0;
}

static void name_file(struct nccl_library *library)
{
	Dl_info info;
	void *function;

	memcpy(&function, &library->get_version, sizeof(function));
	snprintf(library->file, sizeof(library->file), "%s",
		 dladdr(function, &info) && info.dli_fname ? info.dli_fname : "?");
}

static int check_version(struct nccl_library *library, char *ret_why, size_t size)
{
	int version = 0;
	ncclResult_t result = library->get_version(&version);

	if (result != ncclSuccess) {
		nccl_library_explain(library, "ncclGetVersion", result, ret_why, size);
		return -1;
	}
	library->version = version;
	if (version >= NCCL_LIBRARY_OLDEST && version < NCCL_VERSION(3, 0, 0))
		return 0;
	snprintf(ret_why, size,
		 "%s is NCCL with version code %d; 2.14 or newer (code %d), below 3, is needed",
		 library->file, version, NCCL_LIBRARY_OLDEST);
	return -1;
}

static int take(void *handle, struct nccl_library *ret_library, char *ret_why, size_t size)
{
	struct nccl_library library = {0};

	if (find_functions(handle, &library, ret_why, size))
		return -1;
	name_file(&library);
	if (check_version(&library, ret_why, size))
		return -1;
	*ret_library = library;
	return 0;
}

/* One that is in the process: the one wanted, else any. */
static void *open_present(const char *wanted)
{
	void *handle = wanted[0] ? dlopen(wanted, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD) : NULL;

	return handle ? handle : open_loaded();
}

int nccl_library_in_process(const char *wanted, struct nccl_library *ret_library, char *ret_why,
			    size_t size)
{
	void *handle = open_present(wanted);

	if (handle)
		return take(handle, ret_library, ret_why, size);
	snprintf(ret_why, size, "the process has no %s", USUAL_NAME);
	return -1;
}

/* Puts the setting's name before a reason that it is to blame for. */
static void blame_setting(const char *wanted, char *why, size_t size)
{
	char reason[300];

	snprintf(reason, sizeof(reason), "%s", why);
	snprintf(why, size, "BELAY_NCCL_LIBRARY=%.100s: %s", wanted, reason);
}

int nccl_library_find(const char *wanted, struct nccl_library *ret_library, char *ret_why,
		      size_t size)
{
	void *handle = open_present(wanted);
	bool given = wanted[0] && !open_loaded();
	int status;

	if (!handle)
		handle = open_file(given ? wanted : USUAL_NAME, ret_why, size);
	status = handle ? take(handle, ret_library, ret_why, size) : -1;
	if (status && given)
		blame_setting(wanted, ret_why, size);
	return status;
}

/* ---- what it says ---------------------------------------------------------------------------- */

/* NCCL's last words, its place in its source and a line feed cut off. */
static void last_words(const struct nccl_library *library, char *ret_words, size_t size)
{
	const char *words = library->last_error(NULL);

	snprintf(ret_words, size, "%s", words ? words : "");
	ret_words[strcspn(ret_words, "\n")] = '\0';
}

static const char *advice(const char *words)
{
	if (strstr(words, "Duplicate GPU"))
		return "; ranks that share a GPU need an NCCL_HOSTID of their own each, or NCCL "
		       "2.30 "
		       "with NCCL_MULTI_RANK_GPU_ENABLE=1, set by whoever starts them";
	return "";
}

void nccl_library_explain(const struct nccl_library *library, const char *call, ncclResult_t result,
			  char *ret_text, size_t size)
{
	const char *meaning = library->error_string(result);
	char words[200] = "";

	last_words(library, words, sizeof(words));
	snprintf(ret_text, size, "%s: %s (%d)%s%s%s", call, meaning ? meaning : "?", (int)result,
		 words[0] ? ": " : "", words, advice(words));
}
