//===- BulkStripper.cpp - protobuf without its large tensor contents
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Import/BulkStripper.h"
#include "lib/Import/ImportLimits.h"

using namespace kimi;
using llvm::StringRef;

namespace {
/// Wire types of protobuf.
enum Wire : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

constexpr uint32_t kTensorSegment = 3, kTensorRawData = 9;

void appendVarint(std::string &out, uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

void appendBytes(std::string &out, uint32_t field, StringRef bytes) {
  appendVarint(out, field << 3 | kBytes);
  appendVarint(out, bytes.size());
  out.append(bytes.data(), bytes.size());
}
} // namespace

BulkStripper::Message BulkStripper::child(Message parent, uint32_t field) {
  switch (parent) {
  case Message::Model:
    return field == 7 ? Message::Graph : field == 25 ? Message::Function : Message::Other;
  case Message::Graph:
    return field == 1 ? Message::Node : field == 5 ? Message::Tensor : field == 15 ? Message::Sparse : Message::Other;
  case Message::Node:
    return field == 5 ? Message::Attribute : Message::Other;
  case Message::Attribute:
    return field == 5 || field == 10   ? Message::Tensor
           : field == 6 || field == 11 ? Message::Graph
           : field == 22               ? Message::Sparse
                                       : Message::Other;
  case Message::Function:
    return field == 7 ? Message::Node : field == 11 ? Message::Attribute : Message::Other;
  case Message::Sparse:
    return field == 1 || field == 2 ? Message::Tensor : Message::Other;
  case Message::Tensor:
  case Message::Other:
    return Message::Other;
  }
  return Message::Other;
}

bool BulkStripper::isCommentary(Message parent, uint32_t field) {
  switch (parent) {
  case Message::Model:
    return field == 6 || field == 14; // doc_string, metadata_props
  case Message::Graph:
    return field == 10 || field == 16;
  case Message::Node:
    return field == 6 || field == 9;
  case Message::Attribute:
    return field == 13;
  case Message::Function:
    return field == 8 || field == 14;
  case Message::Tensor:
    return field == 12 || field == 16;
  case Message::Sparse:
  case Message::Other:
    return false;
  }
  return false;
}

bool BulkStripper::fail(StringRef body, size_t pos, const char *what) {
  problem = std::string(what) + " at byte " + std::to_string(body.data() + pos - file.data());
  return false;
}

bool BulkStripper::readVarint(StringRef body, size_t &pos, uint64_t &value) {
  value = 0;
  for (unsigned shift = 0; shift < 64 && pos < body.size(); shift += 7) {
    uint8_t byte = body[pos++];
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (!(byte & 0x80)) {
      return true;
    }
  }
  return false;
}

bool BulkStripper::copy(Message kind, StringRef body, unsigned depth, std::string &out) {
  // Three messages (graph, node, attribute) a level.
  if (depth > 3 * limits.nesting) {
    return fail(body, 0, "subgraphs nested too deep (--max-nesting)");
  }
  bool sawRawData = false;
  for (size_t pos = 0; pos < body.size();) {
    size_t start = pos;
    uint64_t tag = 0, length = 0;
    if (!readVarint(body, pos, tag) || tag >> 3 == 0 || tag >> 32 != 0) {
      return fail(body, start, "bad protobuf tag");
    }
    uint32_t field = tag >> 3;
    switch (tag & 7) {
    case kVarint:
      if (!readVarint(body, pos, length)) {
        return fail(body, start, "bad protobuf integer");
      }
      length = 0;
      break;
    case kFixed64:
      length = 8;
      break;
    case kFixed32:
      length = 4;
      break;
    case kBytes:
      if (!readVarint(body, pos, length)) {
        return fail(body, start, "bad protobuf length");
      }
      break;
    default:
      return fail(body, start, "bad protobuf wire type");
    }
    if (length > body.size() - pos) {
      return fail(body, start, "field longer than what holds it (truncated file?)");
    }
    StringRef value = body.substr(pos, length);
    pos += length;
    bool nested = (tag & 7) == kBytes;

    if (++fields > limits.fields) {
      return fail(body, start, "too many nodes, tensors and values (--max-fields)");
    }
    if (isCommentary(kind, field)) {
      continue;
    }
    if (kind == Message::Tensor && field == kTensorSegment) {
      return fail(body, start, "a tensor in segments, which is not supported,");
    }
    if (kind == Message::Tensor && field == kTensorRawData && nested) {
      if (sawRawData) {
        return fail(body, start, "a tensor with two raw_data fields");
      }
      sawRawData = true;
      if (value.size() > kInlineConstantBytes) {
        uint64_t begin = value.data() - file.data();
        bulk[begin] = begin + value.size();
        std::string segment;
        appendVarint(segment, 1 << 3 | kVarint);
        appendVarint(segment, begin);
        appendVarint(segment, 2 << 3 | kVarint);
        appendVarint(segment, begin + value.size());
        appendBytes(out, kTensorSegment, segment);
        continue;
      }
    }
    Message inner = child(kind, field);
    if (nested && inner != Message::Other) {
      std::string copied;
      if (!copy(inner, value, depth + 1, copied)) {
        return false;
      }
      appendBytes(out, field, copied);
    } else {
      out.append(body.data() + start, pos - start);
    }
    if (out.size() > limits.structureBytes) {
      return fail(body, start, "too much of a graph apart from tensor contents (--max-structure-bytes)");
    }
  }
  return true;
}

bool BulkStripper::run(std::string &out) { return copy(Message::Model, file, 0, out); }
