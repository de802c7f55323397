// SPDX-License-Identifier: Apache-2.0

#include "client/every_server.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace qgemm {

absl::Status JoinEnds(absl::Span<const ServerEnd> ends) {
  if (ends.size() == 1) return ends[0].status;
  int failed = 0;
  std::string reasons;
  absl::Status first;
  for (const ServerEnd& end : ends) {
    if (end.status.ok()) continue;
    ++failed;
    first.Update(end.status);
    absl::StrAppend(
        &reasons, failed == 1 ? "" : "; ", end.server, ": ",
        end.status.ToString(absl::StatusToStringMode::kDefault &
                            ~absl::StatusToStringMode::kWithPayload));
  }
  if (failed == 0) return absl::OkStatus();
  absl::Status joined(first.code(),
                      absl::StrCat("failed at ", failed, " of ", ends.size(),
                                   " servers: ", reasons));
  first.ForEachPayload(
      [&joined](absl::string_view type, const absl::Cord& payload) {
        joined.SetPayload(type, payload);
      });
  return joined;
}

}  // namespace qgemm
