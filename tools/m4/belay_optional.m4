# SPDX-License-Identifier: Apache-2.0
# BELAY_OPTIONAL(NAME, DESCRIPTION, CHECK)
# Adds --with-NAME, where the default is auto. CHECK sets have_NAME to yes or no and, for
# no, why_NAME to the reason that the summary prints. A part that was asked for and is
# missing ends configure: never a silent fallback.
AC_DEFUN([BELAY_OPTIONAL], [
  AC_ARG_WITH([$1], [AS_HELP_STRING([--with-$1], [$2 @<:@auto@:>@])], [], [with_$1=auto])
  AS_CASE([$with_$1],
    [no], [have_$1=no why_$1="--without-$1"],
    [why_$1=found
     $3
     AS_IF([test "x$with_$1" != xauto && test "x$have_$1" = xno],
       [AC_MSG_ERROR([--with-$1 was given, but $2 cannot be built: $why_$1; see config.log])])])
])
