//===- Npy.cpp - NumPy's .npy and .npz files --------------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "runtime/io/Npy.h"
#include "runtime/Checked.h"
#include "runtime/Dtype.h"
#include "runtime/MappedFile.h"
#include "runtime/Text.h"
#include "runtime/files/WholeFile.h"
#include "runtime/io/Zip.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace kimi {
namespace {

constexpr char npyMagic[] = "\x93NUMPY";
constexpr size_t npyMagicSize = 6;

struct DtypeCode {
  const char *code; // NumPy's kind and size
  kimi_dtype dtype;
};
constexpr DtypeCode dtypeCodes[] = {{"f4", KIMI_F32}, {"f2", KIMI_F16}, {"V2", KIMI_BF16}, {"f8", KIMI_F64},
                                    {"i8", KIMI_I64}, {"i4", KIMI_I32}, {"i2", KIMI_I16},  {"i1", KIMI_I8},
                                    {"u8", KIMI_U64}, {"u4", KIMI_U32}, {"u2", KIMI_U16},  {"u1", KIMI_U8},
                                    {"b1", KIMI_BOOL}};

/// The Python dictionary at the start of a .npy file: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
class HeaderParser {
public:
  explicit HeaderParser(std::string_view text) : text(text) {}

  std::string descr;
  bool isFortran = false;
  std::vector<int64_t> shape;

  Status parse() {
    bool hasDescr = false, hasOrder = false, hasShape = false;
    if (!take('{')) {
      return damaged();
    }
    while (!take('}')) {
      std::string key;
      if (!takeString(key) || !take(':')) {
        return damaged();
      }
      bool good;
      if (key == "descr") {
        if (peek() == '[') {
          return {KIMI_UNSUPPORTED, "holds records; only arrays of numbers can be read"};
        }
        good = hasDescr = takeString(descr);
      } else if (key == "fortran_order") {
        good = hasOrder = takeBool(isFortran);
      } else {
        good = hasShape = key == "shape" && takeTuple();
      }
      if (!good) {
        return damaged();
      }
      if (!take(',') && peek() != '}') {
        return damaged();
      }
    }
    return hasDescr && hasOrder && hasShape ? Status() : damaged();
  }

private:
  static Status damaged() { return badFile("has a damaged .npy header"); }

  char peek() {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\n')) {
      ++at;
    }
    return at < text.size() ? text[at] : '\0';
  }
  bool take(char c) {
    bool isThere = peek() == c;
    at += isThere;
    return isThere;
  }
  bool takeWord(std::string_view word) {
    peek();
    bool isThere = text.substr(at, word.size()) == word;
    at += isThere ? word.size() : 0;
    return isThere;
  }
  bool takeString(std::string &out) {
    char quote = peek();
    if (quote != '\'' && quote != '"') {
      return false;
    }
    size_t end = text.find(quote, at + 1);
    if (end == std::string_view::npos) {
      return false;
    }
    out = text.substr(at + 1, end - at - 1);
    at = end + 1;
    return true;
  }
  bool takeBool(bool &out) {
    out = takeWord("True");
    return out || takeWord("False");
  }
  bool takeTuple() {
    if (!take('(')) {
      return false;
    }
    while (!take(')')) {
      int64_t value = 0;
      if (peek() < '0' || peek() > '9') {
        return false;
      }
      for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
        if (!mul(value, 10, value) || !add(value, text[at] - '0', value)) {
          return false;
        }
      }
      takeWord("L"); // Python 2 wrote long integers so
      shape.push_back(value);
      if (!take(',') && peek() != ')') {
        return false;
      }
    }
    return true;
  }

  std::string_view text;
  size_t at = 0;
};

Status parseDtype(const std::string &descr, kimi_dtype &out) {
  std::string code = descr.empty() ? "" : descr.substr(1);
  for (const DtypeCode &it : dtypeCodes) {
    if (code == it.code && (descr[0] != '>' || dtypeSize(it.dtype) == 1)) {
      out = it.dtype;
      return {};
    }
  }
  return {KIMI_UNSUPPORTED,
          "holds elements of NumPy type " + quoted(descr) + "; little-endian integers, floats and bools can be read"};
}

/// Elements in column-major order, written row-major.
void transposeFromFortran(const uint8_t *from, const std::vector<int64_t> &dims, size_t elementSize, uint8_t *to) {
  std::vector<int64_t> index(dims.size(), 0), strides(dims.size(), 1);
  int64_t count = 1;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    strides[axis] = count;
    count *= dims[axis];
  }
  int64_t source = 0;
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(to + i * elementSize, from + source * elementSize, elementSize);
    for (size_t axis = dims.size(); axis-- > 0;) {
      source += strides[axis];
      if (++index[axis] < dims[axis]) {
        break;
      }
      source -= strides[axis] * dims[axis];
      index[axis] = 0;
    }
  }
}

Status at(const std::string &place, const Status &status) { return {status.code(), place + ": " + status.message()}; }

/// The elements as the file holds them: bf16 as f32, in `widened`.
std::pair<const void *, uint64_t> npyPayload(const kimi_tensor &tensor, std::vector<uint32_t> &widened) {
  int64_t bytes = *denseBytes(tensor.dims, tensor.rank, dtypeSize(tensor.dtype));
  if (tensor.dtype != KIMI_BF16) {
    return {tensor.data, bytes};
  }
  const auto *from = static_cast<const uint16_t *>(tensor.data);
  widened.resize(bytes / 2);
  for (size_t i = 0; i < widened.size(); ++i) {
    widened[i] = uint32_t(from[i]) << 16;
  }
  return {widened.data(), widened.size() * sizeof(uint32_t)};
}

Status checkTensor(const kimi_tensor &tensor) {
  if (!isValidDtype(tensor.dtype) || tensor.rank < 0 || tensor.rank > KIMI_MAX_RANK ||
      !denseBytes(tensor.dims, tensor.rank, dtypeSize(tensor.dtype))) {
    return invalidArgument("a tensor to be written has no valid dtype and shape");
  }
  return {};
}

} // namespace

kimi_tensor Array::tensor() {
  kimi_tensor out = {};
  out.dtype = dtype;
  out.rank = static_cast<int32_t>(std::min<size_t>(dims.size(), KIMI_MAX_RANK));
  std::copy_n(dims.begin(), out.rank, out.dims);
  out.data = data.data();
  return out;
}

Status parseNpy(const uint8_t *bytes, size_t size, Array &out) {
  if (size < npyMagicSize + 4 || std::memcmp(bytes, npyMagic, npyMagicSize) != 0) {
    return badFile("is no .npy file");
  }
  uint8_t version = bytes[npyMagicSize];
  size_t lengthSize = version == 1 ? 2 : 4, start = npyMagicSize + 2 + lengthSize;
  if (version < 1 || version > 3 || size < start) {
    return badFile("has .npy version " + std::to_string(version) + "; 1 to 3 can be read");
  }
  uint32_t headerLength = 0;
  std::memcpy(&headerLength, bytes + npyMagicSize + 2, lengthSize);
  if (headerLength > size - start) {
    return badFile("is cut off in its .npy header");
  }
  HeaderParser header(std::string_view(reinterpret_cast<const char *>(bytes) + start, headerLength));
  if (Status s = header.parse()) {
    return s;
  }
  Array array;
  if (Status s = parseDtype(header.descr, array.dtype)) {
    return s;
  }
  array.dims = header.shape;
  if (array.dims.size() > KIMI_MAX_RANK) {
    return {KIMI_UNSUPPORTED, "has rank " + std::to_string(array.dims.size()) + "; at most " +
                                  std::to_string(KIMI_MAX_RANK) + " can be read"};
  }
  size_t elementSize = dtypeSize(array.dtype), available = size - start - headerLength;
  auto needed = denseBytes(array.dims.data(), array.dims.size(), elementSize);
  if (!needed || static_cast<uint64_t>(*needed) > available) {
    return badFile("is cut off: the shape " + shapeText(array.dims.data(), array.dims.size()) + " of " +
                   dtypeName(array.dtype) + " needs more than the " + std::to_string(available) + " bytes that follow");
  }
  const uint8_t *elements = bytes + start + headerLength;
  array.data.resize(static_cast<size_t>(*needed));
  if (header.isFortran && array.dims.size() > 1) {
    transposeFromFortran(elements, array.dims, elementSize, array.data.data());
  } else if (*needed != 0) {
    std::memcpy(array.data.data(), elements, array.data.size());
  }
  out = std::move(array);
  return {};
}

std::string npyHeader(const kimi_tensor &tensor) {
  kimi_dtype stored = tensor.dtype == KIMI_BF16 ? KIMI_F32 : tensor.dtype;
  std::string code;
  for (const DtypeCode &it : dtypeCodes) {
    if (it.dtype == stored) {
      code = std::string(dtypeSize(stored) == 1 ? "|" : "<") + it.code;
    }
  }
  std::string shape;
  for (int32_t axis = 0; axis < tensor.rank; ++axis) {
    shape += (axis ? ", " : "") + std::to_string(tensor.dims[axis]);
  }
  std::string dictionary =
      "{'descr': '" + code + "', 'fortran_order': False, 'shape': (" + shape + (tensor.rank == 1 ? ",), }" : "), }");
  size_t start = npyMagicSize + 4;
  dictionary.append((64 - (start + dictionary.size() + 1) % 64) % 64, ' '); // elements start at a multiple of 64
  dictionary += '\n';
  std::string out(npyMagic, npyMagicSize);
  out += '\x01';
  out += '\0';
  out += static_cast<char>(dictionary.size() & 0xff);
  out += static_cast<char>(dictionary.size() >> 8);
  return out + dictionary;
}

Status readNpy(const std::string &path, Array &out) {
  Mapping file;
  Status status = Mapping::ofPath(path, file);
  if (!status) {
    status = parseNpy(file.data(), file.size(), out);
  }
  return status ? at(path, status) : Status();
}

Status writeNpy(const std::string &path, const kimi_tensor &tensor) {
  if (Status s = checkTensor(tensor)) {
    return at(path, s);
  }
  WholeFile file(path);
  std::string header = npyHeader(tensor);
  std::vector<uint32_t> widened;
  auto [data, bytes] = npyPayload(tensor, widened);
  file.stream().write(header.data(), static_cast<std::streamsize>(header.size()));
  file.stream().write(static_cast<const char *>(data), static_cast<std::streamsize>(bytes));
  Status status = file.finish();
  return status ? at(path, status) : Status();
}

Status readNpz(const std::string &path, NamedArrays &out) {
  Mapping file;
  if (Status s = Mapping::ofPath(path, file)) {
    return at(path, s);
  }
  std::vector<ZipMember> members;
  if (Status s = listZip(file.data(), file.size(), members)) {
    return at(path, s);
  }
  NamedArrays arrays;
  for (const ZipMember &member : members) {
    std::vector<uint8_t> bytes;
    if (Status s = readZipMember(file.data(), member, bytes)) {
      return at(path, s);
    }
    std::string name = member.name;
    if (name.size() > 4 && name.compare(name.size() - 4, 4, ".npy") == 0) {
      name.resize(name.size() - 4);
    }
    arrays.emplace_back(name, Array());
    if (Status s = parseNpy(bytes.data(), bytes.size(), arrays.back().second)) {
      return at(path + ": member " + quoted(member.name), s);
    }
  }
  out = std::move(arrays);
  return {};
}

Status writeNpz(const std::string &path, const std::vector<std::pair<std::string, kimi_tensor>> &tensors) {
  for (const auto &[name, tensor] : tensors) {
    if (Status s = checkTensor(tensor)) {
      return at(path, s);
    }
    if (name.size() > 0xffff - 4) {
      return invalidArgument(path + ": a name of " + std::to_string(name.size()) + " bytes does not fit a .npz file");
    }
  }
  WholeFile file(path);
  ZipWriter zip(file.stream());
  for (const auto &[name, tensor] : tensors) {
    std::string header = npyHeader(tensor);
    std::vector<uint32_t> widened;
    zip.add(name + ".npy", {{header.data(), header.size()}, npyPayload(tensor, widened)});
  }
  zip.finish();
  Status status = file.finish();
  return status ? at(path, status) : Status();
}

} // namespace kimi
