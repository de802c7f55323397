// SPDX-License-Identifier: Apache-2.0
//
// JSON there and back. Reading is strict: a file that is not wholly understood
// is refused, so that nobody serves with thresholds other than meant.

#include "kernels/cuda/plan/tuning.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "base/status_macros.h"
#include "base/strict_json.h"

namespace qgemm::cuda {
namespace {

using strict_json::CheckKeys;
using strict_json::Illegal;
using strict_json::Json;
using strict_json::Missing;

constexpr int kVersion = 2;
constexpr const char* kWidths[] = {"2", "3", "4", "5"};
// A tuning takes some hundred bytes.
constexpr size_t kMaxTextBytes = 64 << 10;

absl::Status CheckVersion(const Json& root) {
  const std::string legal = absl::StrCat(kVersion);
  const auto version = root.find("version");
  if (version == root.end()) return Missing("tuning: version", legal);
  if (version->is_number_integer() && *version == kVersion) {
    return absl::OkStatus();
  }
  return Illegal("tuning: version", *version, legal);
}

absl::StatusOr<std::string> DeviceOf(const Json& root) {
  constexpr char kLegal[] = "the device's name, or an empty text for any";
  const auto device = root.find("device");
  if (device == root.end()) return Missing("tuning: device", kLegal);
  if (!device->is_string()) return Illegal("tuning: device", *device, kLegal);
  return device->get<std::string>();
}

absl::StatusOr<int64_t> RowsOf(const Json& rows, const char* width) {
  const std::string field =
      absl::StrCat("tuning: max_decode_rows[\"", width, "\"]");
  const std::string legal =
      absl::StrCat("multiples of ", kMinDecodeRowsLimit, " from ",
                   kMinDecodeRowsLimit, " to ", kMaxDecodeRowsLimit);
  const auto value = rows.find(width);
  if (value == rows.end()) return Missing(field, legal);
  const absl::optional<int64_t> number =
      strict_json::CountOf(*value, kMaxDecodeRowsLimit);
  if (!number.has_value() || *number < kMinDecodeRowsLimit ||
      *number % kMinDecodeRowsLimit != 0) {
    return Illegal(field, *value, legal);
  }
  return *number;
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

absl::StatusOr<std::string> ReadText(const std::string& path) {
  const std::unique_ptr<std::FILE, CloseFile> file(
      std::fopen(path.c_str(), "rb"));
  if (file == nullptr) {
    const int error = errno;
    const std::string message =
        absl::StrCat("tuning file ", path, ": ", std::strerror(error));
    if (error == ENOENT) return absl::NotFoundError(message);
    return absl::InvalidArgumentError(message);
  }
  // Too long if it fills, which ParseTuning refuses.
  std::string text(kMaxTextBytes + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0) {  // a folder, say
    return absl::InvalidArgumentError(
        absl::StrCat("tuning file ", path, ": ", std::strerror(errno)));
  }
  return text;
}

}  // namespace

// By kernel_bench --calibrate on an H100. Decode kernel over cuBLASLt,
// geometric mean of 8192x28672 and 4096x14336: of 2 bits 0.92 at M = 384
// and 1.05 at 512, of 3 bits 0.97 and 1.09, of 4 bits 0.97 and 1.10, of 5 bits
// 0.97 at 256 and 1.31 at 384.
Tuning DefaultTuning() {
  Tuning tuning;
  tuning.max_decode_rows = {384, 384, 384, 256};
  return tuning;
}

std::string FormatTuning(const Tuning& tuning) {
  Json rows = Json::object();
  for (size_t i = 0; i < tuning.max_decode_rows.size(); ++i) {
    rows[kWidths[i]] = tuning.max_decode_rows[i];
  }
  const Json root = {{"version", kVersion},
                     {"device", tuning.device},
                     {"max_decode_rows", rows}};
  // A device's name that is no UTF-8 is written as near to it as JSON can.
  return root.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

absl::StatusOr<Tuning> ParseTuning(absl::string_view text) {
  ASSIGN_OR_RETURN(const Json root,
                   strict_json::ParseObject(text, {"tuning: ", kMaxTextBytes,
                                                   "{\"version\": 2, ...}"}));
  RETURN_IF_ERROR(CheckVersion(root));
  RETURN_IF_ERROR(
      CheckKeys(root, "tuning:", {"version", "device", "max_decode_rows"}));
  Tuning tuning;
  ASSIGN_OR_RETURN(tuning.device, DeviceOf(root));
  constexpr char kLegalRows[] = "an object with the code widths 2, 3, 4, 5";
  const auto rows = root.find("max_decode_rows");
  if (rows == root.end()) return Missing("tuning: max_decode_rows", kLegalRows);
  if (!rows->is_object()) {
    return Illegal("tuning: max_decode_rows", *rows, kLegalRows);
  }
  RETURN_IF_ERROR(CheckKeys(*rows, "tuning: max_decode_rows",
                            {std::begin(kWidths), std::end(kWidths)}));
  for (size_t i = 0; i < tuning.max_decode_rows.size(); ++i) {
    ASSIGN_OR_RETURN(tuning.max_decode_rows[i], RowsOf(*rows, kWidths[i]));
  }
  return tuning;
}

absl::StatusOr<Tuning> ReadTuningFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  absl::StatusOr<Tuning> tuning = ParseTuning(text);
  if (tuning.ok()) return tuning;
  return absl::Status(
      tuning.status().code(),
      absl::StrCat("tuning file ", path, ": ", tuning.status().message()));
}

}  // namespace qgemm::cuda
