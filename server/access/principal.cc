// SPDX-License-Identifier: Apache-2.0

#include "server/access/principal.h"

#include <algorithm>

#include "absl/strings/match.h"

namespace qgemm {
namespace {

bool HasPrefixOf(const std::vector<std::string>& prefixes,
                 absl::string_view name) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [name](const std::string& prefix) {
                       return absl::StartsWith(name, prefix);
                     });
}

}  // namespace

const char* NameOf(Right right) {
  switch (right) {
    case Right::kNone:
      return "none";
    case Right::kCompute:
      return "compute";
    case Right::kLoad:
      return "load";
    case Right::kAdmin:
      return "admin";
    case Right::kDebug:
      return "debug";
  }
  return "unknown";
}

bool MayBind(const Principal* principal, absl::string_view name) {
  return principal == nullptr || HasPrefixOf(principal->names, name);
}

bool MayRead(const Principal* principal, absl::string_view name) {
  return MayBind(principal, name) || HasPrefixOf(principal->read, name);
}

}  // namespace qgemm
