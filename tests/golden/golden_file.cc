// SPDX-License-Identifier: Apache-2.0
//
// Parses the index line by line.

#include "tests/golden/golden_file.h"

#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "tests/golden/spec_text.h"

namespace qgemm {
namespace {

using Words = std::vector<absl::string_view>;

template <typename T, typename Bytes>
std::vector<T> As(const Bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (values.empty()) return values;
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

// The part of `binary` that the last two words name.
absl::StatusOr<absl::string_view> Place(const Words& words,
                                        absl::string_view binary) {
  size_t offset, size;
  if (words.size() < 3 || !absl::SimpleAtoi(words[words.size() - 2], &offset) ||
      !absl::SimpleAtoi(words.back(), &size) || offset > binary.size() ||
      size > binary.size() - offset) {
    return absl::InvalidArgumentError("names no place in the binary file");
  }
  return binary.substr(offset, size);
}

absl::Status ParseEncodeOption(absl::string_view option,
                               EncodeOptions* options) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(option, absl::MaxSplits('=', 1));
  const auto [field, value] = parts;
  int64_t number = 0;
  const bool is_number = absl::SimpleAtoi(value, &number);
  if (field == "target") {
    ASSIGN_OR_RETURN(options->target, ParseQuantizeTarget(value));
  } else if (field == "scale_type") {
    ASSIGN_OR_RETURN(options->scale_type, ParseScaleType(value));
  } else if (field == "coding") {
    ASSIGN_OR_RETURN(options->ternary_coding, ParseTernaryCoding(value));
  } else if (field == "bits" && is_number) {
    options->bits = static_cast<int>(number);
  } else if (field == "group_size" && is_number) {
    options->group_size = number;
  } else if (field == "asymmetric" && is_number) {
    options->asymmetric = number != 0;
  } else {
    return absl::InvalidArgumentError("unknown option of encode");
  }
  return absl::OkStatus();
}

absl::Status ParseEncode(const Words& words, GoldenCase* target) {
  EncodeOptions options;
  for (const absl::string_view option : absl::MakeSpan(words).subspan(1)) {
    RETURN_IF_ERROR(ParseEncodeOption(option, &options));
  }
  const std::vector<uint8_t> codebook =
      target->SectionBytes(Section::kCodebook);
  options.codebook = As<float>(codebook);
  target->encode = std::move(options);
  return absl::OkStatus();
}

absl::Status ParseSpec(absl::string_view line, GoldenCase* target) {
  const absl::string_view text = line.substr(std::strlen("spec "));
  target->canonical_text =
      absl::StrCat(absl::StrReplaceAll(text, {{" ", "\n"}}), "\n");
  ASSIGN_OR_RETURN(target->upload.spec, ParseSpecText(text));
  return absl::OkStatus();
}

absl::Status ParseSectionLine(const Words& words, absl::string_view binary,
                              GoldenCase* target) {
  ASSIGN_OR_RETURN(const Section section, ParseSection(words[1]));
  ASSIGN_OR_RETURN(const absl::string_view bytes, Place(words, binary));
  target->upload.sections.push_back({section, As<uint8_t>(bytes)});
  return absl::OkStatus();
}

// Lines that put a part of the binary file into a field; false for others.
absl::StatusOr<bool> ParseArray(const Words& words, absl::string_view binary,
                                GoldenCase* target) {
  const absl::string_view keyword = words[0];
  if (keyword != "weights" && keyword != "row_digests" &&
      keyword != "permutation" && keyword != "input") {
    return false;
  }
  ASSIGN_OR_RETURN(const absl::string_view bytes, Place(words, binary));
  if (keyword == "weights") target->weights = As<double>(bytes);
  if (keyword == "row_digests") target->row_digests = As<uint8_t>(bytes);
  if (keyword == "permutation") target->permutation = As<int32_t>(bytes);
  if (keyword == "input") target->input = As<float>(bytes);
  return true;
}

absl::Status ParseLine(absl::string_view line, absl::string_view binary,
                       GoldenCase* target) {
  const Words words = absl::StrSplit(line, ' ');
  if (words.size() < 2) return absl::InvalidArgumentError("no operand");
  ASSIGN_OR_RETURN(const bool is_array, ParseArray(words, binary, target));
  if (is_array) return absl::OkStatus();
  if (words[0] == "spec") return ParseSpec(line, target);
  if (words[0] == "section") return ParseSectionLine(words, binary, target);
  if (words[0] == "encode") return ParseEncode(words, target);
  if (words[0] == "id") {
    target->id = std::string(words[1]);
    return absl::OkStatus();
  }
  if ((words[0] == "flushed" &&
       absl::SimpleAtoi(words[1], &target->flushed_blocks)) ||
      (words[0] == "tensor_scale" &&
       absl::SimpleAtof(words[1], &target->tensor_scale))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("unknown keyword or value");
}

}  // namespace

std::vector<uint8_t> GoldenCase::SectionBytes(Section section) const {
  for (const EncodedWeights::SectionBytes& candidate : upload.sections) {
    if (candidate.section == section) return candidate.bytes;
  }
  return {};
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  std::ostringstream contents;
  contents << file.rdbuf();
  return contents.str();
}

absl::StatusOr<std::vector<GoldenCase>> ReadGoldenCases(
    const std::string& index_path, const std::string& binary_path) {
  ASSIGN_OR_RETURN(const std::string index, ReadWholeFile(index_path));
  ASSIGN_OR_RETURN(const std::string binary, ReadWholeFile(binary_path));
  std::vector<GoldenCase> cases;
  for (const absl::string_view line : absl::StrSplit(index, '\n')) {
    if (line.empty() || line[0] == '#') continue;
    constexpr absl::string_view kCase = "case ";
    if (line.substr(0, kCase.size()) == kCase) {
      cases.emplace_back();
      cases.back().name = std::string(line.substr(kCase.size()));
      continue;
    }
    const absl::Status status =
        cases.empty() ? absl::InvalidArgumentError("comes before any case")
                      : ParseLine(line, binary, &cases.back());
    if (!status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(index_path, ": ", line, ": ", status.message()));
    }
  }
  return cases;
}

}  // namespace qgemm
