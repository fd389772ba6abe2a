/* Kernels of the module that the tests of kimi-run make (TinyModule.cpp): the next token is the sum of all tokens so
   far plus one, modulo the vocabulary. A wrong mask or position gives NaN. Arguments: kimi's kernel convention, a view
   is pointer, sizes, strides. */
#include <stdint.h>

/* ids [B,T] i64, mask [B,P+T] f32, positions [B,T] i64, state [B,C] i64, logits [B,T,V] f32, past P. */
void tiny_step(const int64_t *a, int64_t x, int64_t y, int64_t z) {
  const int64_t *ids = (const int64_t *)a[0], *positions = (const int64_t *)a[10];
  const float *mask = (const float *)a[5];
  int64_t *state = (int64_t *)a[15];
  float *logits = (float *)a[20];
  int64_t batch = a[1], tokens = a[2], vocabulary = a[23], past = a[27];
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t t = 0; t < tokens; ++t) {
      int64_t sum = 1, sound = positions[b * a[13] + t * a[14]] == past + t && a[7] == past + tokens;
      state[b * a[18] + (past + t) * a[19]] = ids[b * a[3] + t * a[4]];
      for (int64_t i = 0; i <= past + t; ++i) {
        sum += state[b * a[18] + i * a[19]];
        sound &= mask[b * a[8] + i * a[9]] == 1.0f;
      }
      for (int64_t v = 0; v < vocabulary; ++v) {
        float hot = v == sum % vocabulary ? 1.0f : 0.0f;
        logits[b * a[24] + t * a[25] + v * a[26]] = sound ? hot : 0.0f / 0.0f;
      }
    }
  }
}

/* ids [B,T] i64, logits [B,T,V] f32. */
void tiny_whole(const int64_t *a, int64_t x, int64_t y, int64_t z) {
  const int64_t *ids = (const int64_t *)a[0];
  float *logits = (float *)a[5];
  for (int64_t b = 0; b < a[1]; ++b) {
    int64_t sum = 1;
    for (int64_t t = 0; t < a[2]; ++t) {
      sum += ids[b * a[3] + t * a[4]];
      for (int64_t v = 0; v < a[8]; ++v) {
        logits[b * a[9] + t * a[10] + v * a[11]] = v == sum % a[8] ? 1.0f : 0.0f;
      }
    }
  }
}

/* logits [B,T,V] f32, next [B,1] i64: the largest of the last row, NaN giving -1. */
void tiny_choose(const int64_t *a, int64_t x, int64_t y, int64_t z) {
  const float *logits = (const float *)a[0];
  int64_t *next = (int64_t *)a[7];
  for (int64_t b = 0; b < a[1]; ++b) {
    const float *row = logits + b * a[4] + (a[2] - 1) * a[5];
    int64_t best = row[0] == row[0] ? 0 : -1;
    for (int64_t v = 1; v < a[3]; ++v) {
      best = row[v * a[6]] > row[best * a[6]] ? v : best;
    }
    next[b * a[10]] = best;
  }
}

/* How many words each takes: for the fake CUDA driver. */
const int tiny_step_parameters = 28, tiny_whole_parameters = 12, tiny_choose_parameters = 12;
