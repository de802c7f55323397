// SPDX-License-Identifier: Apache-2.0
//
// Pages of ListWeights and ListPrograms: as many records as were asked for and
// as fit, described a few at a time.

#ifndef QGEMM_SERVER_RPC_LIST_PAGES_H_
#define QGEMM_SERVER_RPC_LIST_PAGES_H_

#include <google/protobuf/repeated_ptr_field.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "rpc/message_limits.h"
#include "server/rpc/translate.h"

namespace qgemm {

inline constexpr int64_t kMaxPageRecords = 10000;
inline constexpr int64_t kMaxPageBytes = int64_t{1} << 20;
// Records that are described under one hold of the store's lock, which every
// Gemm takes.
inline constexpr int64_t kRecordsALock = 128;
// Tag and length of one element of a repeated field, at most.
inline constexpr int64_t kElementBytes = 8;

// A page as it is asked for, and the room that is left in it.
struct PageRoom {
  int64_t records = 0;
  int64_t bytes = 0;
  std::string place;  // in the list; the page begins behind it
};

// The room of an empty page. INVALID_ARGUMENT for fields that no page has.
// Request is ListWeightsRequest or another with its fields.
template <typename Request>
absl::StatusOr<PageRoom> RoomOf(const Request& request,
                                int64_t max_message_bytes) {
  ASSIGN_OR_RETURN(
      const int64_t page_size,
      CountFromWire("page_size", request.page_size(), kMaxPageRecords));
  const std::string& token = request.page_token();
  if (!token.empty() && token[0] != '0' && token[0] != '1') {
    return absl::InvalidArgumentError(
        "page_token is not the next_page_token of a page; leave it empty for "
        "the first page");
  }
  PageRoom room;
  room.records =
      page_size == 0 ? std::numeric_limits<int64_t>::max() : page_size;
  room.bytes = std::min(
      max_message_bytes - kMessageOverheadBytes,
      page_size == 0 && token.empty() ? kDefaultFragmentBytes : kMaxPageBytes);
  room.place = token;
  return room;
}

// Fills a page. `list` returns so many records behind a place, as the List of a
// NamedStore does; `describe` writes one of its NamedRecords to a message.
// Leaves `next_token` empty on the last page.
template <typename List, typename Describe, typename Message>
void FillPage(PageRoom room, const List& list, const Describe& describe,
              google::protobuf::RepeatedPtrField<Message>* messages,
              std::string* next_token) {
  for (bool is_last = false; !is_last;) {
    const auto part =
        list(room.place,
             std::min(kRecordsALock, std::max(int64_t{1}, room.records)));
    for (const auto& entry : part.entries) {
      Message message;
      describe(entry.named, &message);
      const int64_t bytes =
          static_cast<int64_t>(message.ByteSizeLong()) + kElementBytes;
      // A page has a record at least, or the next one would be the same.
      const bool fits = bytes <= room.bytes || messages->empty();
      if (room.records == 0 || !fits) {
        *next_token = room.place;
        return;
      }
      --room.records;
      room.bytes -= bytes;
      room.place = entry.place;
      *messages->Add() = std::move(message);
    }
    is_last = part.is_last;
    room.place = part.next;
  }
}

}  // namespace qgemm

#endif  // QGEMM_SERVER_RPC_LIST_PAGES_H_
