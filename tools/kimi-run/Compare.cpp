//===- Compare.cpp - how far two tensors are apart
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/kimi-run/Compare.h"
#include <algorithm>
#include <cmath>

namespace kimi::run {

/// "[0, 3, 17]" of element `i`.
static std::string place(const HostTensor &tensor, int64_t i) {
  std::vector<int64_t> index(tensor.dims.size());
  for (size_t d = index.size(); d-- > 0;) {
    index[d] = i % tensor.dims[d];
    i /= tensor.dims[d];
  }
  return shapeText(index);
}

static std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", value);
  return text;
}

Difference compare(const HostTensor &got, const HostTensor &want, double rtol, double atol,
                   std::optional<double> rnorm) {
  Difference result;
  auto fail = [&](const std::string &why) {
    result.why = result.equal ? why : result.why;
    result.equal = false;
  };
  // A result in half precision may be judged by numbers of more precision.
  bool wider = isFloat(got.dtype) && isFloat(want.dtype) && kimi_dtype_size(got.dtype) < kimi_dtype_size(want.dtype);
  if (got.dtype != want.dtype && !wider) {
    fail(std::string("dtype ") + kimi_dtype_name(got.dtype) + ", expected " + kimi_dtype_name(want.dtype));
    return result;
  }
  if (got.dims != want.dims) {
    fail("shape " + shapeText(got.dims) + ", expected " + shapeText(want.dims));
    return result;
  }
  bool floats = isFloat(want.dtype);
  double distances = 0, wanted = 0; // sums of squares
  for (int64_t i = 0; i < want.count(); ++i) {
    if (!floats) {
      int64_t a = got.integerAt(i), b = want.integerAt(i);
      if (a != b) {
        double distance = std::abs(static_cast<double>(a) - static_cast<double>(b));
        result.maxAbsolute = std::max(result.maxAbsolute, distance);
        fail("element " + place(want, i) + " is " + std::to_string(a) + ", expected " + std::to_string(b));
      }
      continue;
    }
    double a = got.at(i), b = want.at(i);
    bool close;
    if (std::isfinite(a) && std::isfinite(b)) {
      double distance = std::abs(a - b);
      result.maxAbsolute = std::max(result.maxAbsolute, distance);
      result.maxRelative = std::max(result.maxRelative, distance == 0 ? 0 : b == 0 ? HUGE_VAL : distance / std::abs(b));
      distances += distance * distance;
      wanted += b * b;
      close = rnorm || distance <= atol + rtol * std::abs(b);
    } else {
      close = a == b || (std::isnan(a) && std::isnan(b));
    }
    if (!close) {
      fail("element " + place(want, i) + " is " + number(a) + ", expected " + number(b));
    }
  }
  result.relativeNorm = distances == 0 ? 0 : wanted == 0 ? HUGE_VAL : std::sqrt(distances / wanted);
  if (rnorm && floats && !(result.relativeNorm <= *rnorm)) {
    fail("the norm of the difference is " + number(result.relativeNorm) + " of the expected norm, allowed is " +
         number(*rnorm));
  }
  return result;
}

} // namespace kimi::run
