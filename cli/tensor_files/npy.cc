// SPDX-License-Identifier: Apache-2.0
//
// Reading checks every field; writing makes version 1.

#include "cli/tensor_files/npy.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "cli/tensor_files/byte_reader.h"

namespace qgemm {
namespace {

constexpr absl::string_view kMagic("\x93NUMPY", 6);
constexpr int64_t kHeaderAlignment = 64;
// NumPy's own bound on a header that it reads.
constexpr uint32_t kMaxHeaderBytes = 65536;

// The Python literal that describes the array: a dict with three keys.
struct Description {
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<int64_t>> shape;
};

// Reads that literal and nothing more of Python.
class DescriptionParser {
 public:
  explicit DescriptionParser(absl::string_view text) : text_(text) {}

  absl::StatusOr<Description> Parse() {
    Description result;
    if (!Take("{")) return Malformed();
    while (!Take("}")) {
      std::string key;
      if (!TakeString(&key) || !Take(":")) return Malformed();
      RETURN_IF_ERROR(ParseValue(key, &result));
      if (!Take(",") && !Peek("}")) return Malformed();
    }
    if (!text_.empty() && !absl::StripAsciiWhitespace(text_).empty()) {
      return Malformed();
    }
    if (!result.descr || !result.fortran_order || !result.shape) {
      return absl::InvalidArgumentError(
          "the header lacks descr, fortran_order or shape");
    }
    return result;
  }

 private:
  absl::Status ParseValue(absl::string_view key, Description* result) {
    if (key == "descr" && !result->descr) {
      if (!TakeString(&result->descr.emplace())) return Malformed();
      return absl::OkStatus();
    }
    if (key == "fortran_order" && !result->fortran_order) {
      if (Take("True")) {
        result->fortran_order = true;
      } else if (Take("False")) {
        result->fortran_order = false;
      } else {
        return Malformed();
      }
      return absl::OkStatus();
    }
    if (key == "shape" && !result->shape) {
      return ParseShape(&result->shape.emplace());
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "the header has the key ", Quoted(key), " twice or for no reason"));
  }

  absl::Status ParseShape(std::vector<int64_t>* shape) {
    if (!Take("(")) return Malformed();
    while (!Take(")")) {
      size_t digits = 0;
      SkipSpace();
      while (digits < text_.size() && absl::ascii_isdigit(text_[digits])) {
        ++digits;
      }
      int64_t extent;
      if (!absl::SimpleAtoi(text_.substr(0, digits), &extent)) {
        return absl::InvalidArgumentError(
            "the shape is not a tuple of whole numbers below 2^63");
      }
      text_.remove_prefix(digits);
      shape->push_back(extent);
      if (!Take(",") && !Peek(")")) return Malformed();
    }
    return absl::OkStatus();
  }

  void SkipSpace() { text_ = absl::StripLeadingAsciiWhitespace(text_); }
  bool Take(absl::string_view token) {
    SkipSpace();
    return absl::ConsumePrefix(&text_, token);
  }
  bool Peek(absl::string_view token) {
    SkipSpace();
    return text_.substr(0, token.size()) == token;
  }
  bool TakeString(std::string* value) {
    SkipSpace();
    if (text_.empty() || (text_[0] != '\'' && text_[0] != '"')) return false;
    const size_t end = text_.find(text_[0], 1);
    if (end == absl::string_view::npos) return false;
    *value = std::string(text_.substr(1, end - 1));
    text_.remove_prefix(end + 1);
    return true;
  }
  static absl::Status Malformed() {
    return absl::InvalidArgumentError(
        "the header is not a dictionary of descr, fortran_order and shape");
  }

  absl::string_view text_;
};

absl::StatusOr<absl::string_view> ReadHeaderText(ByteReader* reader) {
  ASSIGN_OR_RETURN(const absl::string_view magic,
                   reader->ReadBytes(kMagic.size(), "the magic number"));
  if (magic != kMagic) {
    return absl::InvalidArgumentError(
        "the file does not start with \\x93NUMPY");
  }
  ASSIGN_OR_RETURN(const uint8_t major, reader->Read<uint8_t>("the version"));
  RETURN_IF_ERROR(reader->Read<uint8_t>("the version").status());
  if (major < 1 || major > 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("the version is ", major, "; 1, 2 and 3 are read"));
  }
  uint32_t bytes;
  if (major == 1) {
    ASSIGN_OR_RETURN(bytes, reader->Read<uint16_t>("the header's length"));
  } else {
    ASSIGN_OR_RETURN(bytes, reader->Read<uint32_t>("the header's length"));
  }
  if (bytes > kMaxHeaderBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the header's length is ", bytes, "; at most ",
                     kMaxHeaderBytes, " is read"));
  }
  return reader->ReadBytes(bytes, "the header");
}

}  // namespace

absl::StatusOr<TensorEntry> ParseNpy(ByteReader* reader) {
  ASSIGN_OR_RETURN(const absl::string_view text, ReadHeaderText(reader));
  ASSIGN_OR_RETURN(const Description description,
                   DescriptionParser(text).Parse());
  TensorEntry tensor;
  tensor.type_name = *description.descr;
  if (tensor.type_name == "<f4") tensor.type = TensorType::kFloat32;
  if (tensor.type_name == "<f2") tensor.type = TensorType::kFloat16;
  if (!tensor.type.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the element type is ", Quoted(tensor.type_name),
                     "; '<f4' and '<f2' are read"));
  }
  if (*description.fortran_order) {
    return absl::InvalidArgumentError(
        "the array is in Fortran order; save numpy.ascontiguousarray(it)");
  }
  tensor.shape = *description.shape;
  if (tensor.shape.size() != 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the shape is ", ShapeText(tensor.shape), "; a matrix is needed"));
  }
  RETURN_IF_ERROR(SetSize(&tensor));
  tensor.offset = reader->position();
  if (tensor.size_bytes != reader->remaining()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the file has ", reader->remaining(), " bytes of data; ",
                     tensor.type_name, " ", ShapeText(tensor.shape), " takes ",
                     tensor.size_bytes, " (is it truncated?)"));
  }
  return tensor;
}

std::string NpyHeader(absl::string_view descr, int64_t rows, int64_t columns) {
  std::string text = absl::StrCat("{'descr': '", descr,
                                  "', 'fortran_order': False, 'shape': (", rows,
                                  ", ", columns, "), }");
  constexpr int64_t kPreambleBytes = 10;
  while ((kPreambleBytes + text.size() + 1) % kHeaderAlignment != 0) {
    text.push_back(' ');
  }
  text.push_back('\n');
  std::string header(kMagic);
  header.append({'\x01', '\x00', static_cast<char>(text.size() & 0xff),
                 static_cast<char>(text.size() >> 8)});
  return header + text;
}

absl::Status WriteNpy(const std::string& path, const std::string& header,
                      absl::Span<const uint8_t> bytes) {
  const auto failure = [&path](absl::string_view operation) {
    return absl::UnknownError(
        absl::StrCat(operation, " ", path, ": ", std::strerror(errno)));
  };
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return failure("create");
  const bool written =
      std::fwrite(header.data(), 1, header.size(), file) == header.size() &&
      std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  const absl::Status status = written ? absl::OkStatus() : failure("write");
  if (std::fclose(file) != 0 && status.ok()) return failure("close");
  return status;
}

}  // namespace qgemm
