/*===- TestKernels.c - kernels of the runtime's test modules ---------------===*\
|*
|* Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
|*
\*===------------------------------------------------------------------------===*/
#include <stdint.h>

/* The words of a two-dimensional view: pointer, 2 sizes, 2 strides. */
enum { View = 5 };

/* How many words a kernel takes, for the fake CUDA driver; and of those that do a grid point a thread, that they do. */
#define PARAMETERS(name, words) const int name##_parameters = (words)
#define TASKS(name) const int name##_tasks = 1

static float *at(const int64_t *view, int64_t i, int64_t j) { return (float *)view[0] + i * view[3] + j * view[4]; }

/* out[x, :] = a[x, :] + b[x, :]. Arguments: a, b, out. Grid: rows. */
void add_rows(const int64_t *args, int64_t x, int64_t y, int64_t z) {
  const int64_t *a = args, *b = args + View, *out = args + 2 * View;
  for (int64_t j = 0; j < out[2]; ++j) {
    *at(out, x, j) = *at(a, x, j) + *at(b, x, j);
  }
}
PARAMETERS(add_rows, 3 * View);

/* out[x, y] = a[x, y] * factor. Arguments: a, out, factor. Grid: rows, columns. */
void scale(const int64_t *args, int64_t x, int64_t y, int64_t z) {
  const int64_t *a = args, *out = args + View;
  *at(out, x, y) = *at(a, x, y) * (float)args[2 * View];
}
PARAMETERS(scale, 2 * View + 1);
TASKS(scale);

/* The same with the sign turned, to tell variants apart. */
void scale_negative(const int64_t *args, int64_t x, int64_t y, int64_t z) {
  const int64_t *a = args, *out = args + View;
  *at(out, x, y) = -*at(a, x, y) * (float)args[2 * View];
}
PARAMETERS(scale_negative, 2 * View + 1);

/* out[0, y] = sum over rows of a[:, y]. Arguments: a, out. Grid: 1, columns. */
void sum_rows(const int64_t *args, int64_t x, int64_t y, int64_t z) {
  const int64_t *a = args, *out = args + View;
  float sum = 0;
  for (int64_t i = 0; i < a[1]; ++i) {
    sum += *at(a, i, y);
  }
  *at(out, 0, y) = sum;
}
PARAMETERS(sum_rows, 2 * View);

/* out[x, :] += a[x, :]. Arguments: a, out. Grid: rows. */
void accumulate(const int64_t *args, int64_t x, int64_t y, int64_t z) {
  const int64_t *a = args, *out = args + View;
  for (int64_t j = 0; j < out[2]; ++j) {
    *at(out, x, j) += *at(a, x, j);
  }
}
PARAMETERS(accumulate, 2 * View);

extern float sqrtf(float); /* from the mathematics library, as compiled kernels take it */

/* out[x, y] = sqrt(a[x, y]). Arguments: a, out. Grid: rows, columns. */
void root(const int64_t *args, int64_t x, int64_t y, int64_t z) {
  const int64_t *a = args, *out = args + View;
  *at(out, x, y) = sqrtf(*at(a, x, y));
}
PARAMETERS(root, 2 * View);

/* out[x, 0] = tokens[x, 0] * 2 + step, both i64. Arguments: tokens, out, step. Grid: rows. */
void next_token(const int64_t *args, int64_t x, int64_t y, int64_t z) {
  const int64_t *tokens = args, *out = args + View;
  *((int64_t *)out[0] + x * out[3]) = *((int64_t *)tokens[0] + x * tokens[3]) * 2 + args[2 * View];
}
PARAMETERS(next_token, 2 * View + 1);

/* add_rows, for a kernel that takes two tensor maps besides. */
void add_rows_mapped(const int64_t *args, int64_t x, int64_t y, int64_t z) { add_rows(args, x, y, z); }
PARAMETERS(add_rows_mapped, 3 * View);
const int add_rows_mapped_maps = 2;
