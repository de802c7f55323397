// SPDX-License-Identifier: Apache-2.0
//
// JSON there and back. Reading is strict: a file that is not wholly understood
// is refused, so that nobody serves with thresholds other than meant.

#include "kernels/cuda/plan/tuning.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace qgemm::cuda {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 2;
constexpr const char* kFields[] = {"version", "device", "max_decode_rows"};
constexpr const char* kWidths[] = {"2", "3", "4", "5"};
// A tuning takes some hundred bytes.
constexpr size_t kMaxTextBytes = 64 << 10;
// Values are copied and freed by recursion, which a deep one would take beyond
// the stack.
constexpr int kMaxDepth = 8;

// A value as an error message shows it.
std::string Shown(const Json& value) {
  constexpr size_t kMostShown = 60;
  if (value.is_structured()) return absl::StrCat("an ", value.type_name());
  // Replaces bytes that are no UTF-8 instead of throwing.
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kMostShown) text = text.substr(0, kMostShown) + "...";
  return text;
}

absl::Status Illegal(absl::string_view field, const Json& value,
                     absl::string_view legal) {
  return absl::InvalidArgumentError(absl::StrCat(
      "tuning: ", field, " = ", Shown(value), "; allowed: ", legal));
}

absl::Status Missing(absl::string_view field, absl::string_view legal) {
  return absl::InvalidArgumentError(
      absl::StrCat("tuning: ", field, " is missing; allowed: ", legal));
}

// The only keys of `object` are `names`.
template <size_t kCount>
absl::Status CheckKeys(const Json& object, absl::string_view prefix,
                       const char* const (&names)[kCount]) {
  for (const auto& [key, value] : object.items()) {
    if (absl::c_linear_search(names, key)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "tuning: ", prefix, "holds ", Shown(Json(key)),
        ", which is no field; allowed: ", absl::StrJoin(names, ", ")));
  }
  return absl::OkStatus();
}

absl::Status CheckVersion(const Json& root) {
  const std::string legal = absl::StrCat(kVersion);
  const auto version = root.find("version");
  if (version == root.end()) return Missing("version", legal);
  if (version->is_number_integer() && *version == kVersion) {
    return absl::OkStatus();
  }
  return Illegal("version", *version, legal);
}

absl::StatusOr<std::string> DeviceOf(const Json& root) {
  constexpr char kLegal[] = "the device's name, or an empty text for any";
  const auto device = root.find("device");
  if (device == root.end()) return Missing("device", kLegal);
  if (!device->is_string()) return Illegal("device", *device, kLegal);
  return device->get<std::string>();
}

absl::StatusOr<int64_t> RowsOf(const Json& rows, const char* width) {
  const std::string field = absl::StrCat("max_decode_rows[\"", width, "\"]");
  const std::string legal =
      absl::StrCat("multiples of ", kMinDecodeRowsLimit, " from ",
                   kMinDecodeRowsLimit, " to ", kMaxDecodeRowsLimit);
  const auto value = rows.find(width);
  if (value == rows.end()) return Missing(field, legal);
  // A number beyond int64 would wrap if it were taken as one.
  const bool fits = value->is_number_integer() &&
                    (!value->is_number_unsigned() ||
                     value->get<uint64_t>() <= uint64_t{kMaxDecodeRowsLimit});
  if (!fits) return Illegal(field, *value, legal);
  const auto number = value->get<int64_t>();
  if (number < kMinDecodeRowsLimit || number > kMaxDecodeRowsLimit ||
      number % kMinDecodeRowsLimit != 0) {
    return Illegal(field, *value, legal);
  }
  return number;
}

// Tells of a key that comes twice, of which the parser would keep the last.
class DuplicateFinder {
 public:
  void See(Json::parse_event_t event, const Json& parsed) {
    if (event == Json::parse_event_t::object_start) keys_.emplace_back();
    if (event == Json::parse_event_t::object_end) keys_.pop_back();
    if (event == Json::parse_event_t::key &&
        !keys_.back().insert(parsed.get<std::string>()).second &&
        duplicate_.empty()) {
      duplicate_ = Shown(parsed);
    }
  }
  const std::string& duplicate() const { return duplicate_; }

 private:
  std::vector<std::set<std::string>> keys_;
  std::string duplicate_;
};

absl::StatusOr<Json> ParseObject(absl::string_view text) {
  if (text.size() > kMaxTextBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("tuning: the text has ", text.size(),
                     " bytes; allowed: at most ", kMaxTextBytes));
  }
  DuplicateFinder finder;
  Json root = Json::parse(
      text.begin(), text.end(),
      [&finder](int depth, Json::parse_event_t event, Json& parsed) {
        if (depth > kMaxDepth) return false;  // left out of what is parsed
        finder.See(event, parsed);
        return true;
      },
      /*allow_exceptions=*/false);
  if (root.is_discarded() || !root.is_object()) {
    return absl::InvalidArgumentError(
        "tuning: the text is no JSON object; allowed: {\"version\": 1, ...}");
  }
  if (!finder.duplicate().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("tuning: ", finder.duplicate(), " comes twice"));
  }
  return root;
}

// More than a tuning has; ParseTuning refuses what fills it.
constexpr size_t kMostBytes = (64 << 10) + 1;

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
  std::string text(kMostBytes, '\0');
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
  ASSIGN_OR_RETURN(const Json root, ParseObject(text));
  RETURN_IF_ERROR(CheckVersion(root));
  RETURN_IF_ERROR(CheckKeys(root, "", kFields));
  Tuning tuning;
  ASSIGN_OR_RETURN(tuning.device, DeviceOf(root));
  constexpr char kLegalRows[] = "an object with the code widths 2, 3, 4, 5";
  const auto rows = root.find("max_decode_rows");
  if (rows == root.end()) return Missing("max_decode_rows", kLegalRows);
  if (!rows->is_object()) return Illegal("max_decode_rows", *rows, kLegalRows);
  RETURN_IF_ERROR(CheckKeys(*rows, "max_decode_rows ", kWidths));
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
