// SPDX-License-Identifier: Apache-2.0

#include "server/rpc/stream_ledger.h"

#include "absl/strings/str_cat.h"

namespace qgemm {
namespace {

using Kind = StreamVerdict::Kind;

absl::Status Malformed(uint64_t id, absl::string_view problem) {
  return absl::InvalidArgumentError(
      absl::StrCat("request_id = ", id, ": ", problem));
}

}  // namespace

template <typename Change>
void StreamLedger::Update(Requests::iterator request, Change change) {
  const auto count = [this](const Request& each, int64_t sign) {
    if (!each.answered) unanswered_ += sign;
    if (!each.complete()) partial_ += sign;
    if (!each.waits()) return;
    waiting_ += sign;
    held_bytes_ += sign * each.held_bytes;
  };
  count(request->second, -1);
  change(request->second);
  count(request->second, 1);
  if (request->second.complete() && request->second.answered) {
    requests_.erase(request);
  }
}

StreamVerdict StreamLedger::Begin(uint64_t id, uint64_t a_bytes,
                                  uint64_t fragment_bytes) {
  const bool more_follow = fragment_bytes < a_bytes;
  if (requests_.count(id) != 0) {
    return {more_follow ? Kind::kBroken : Kind::kRefused,
            Malformed(id,
                      "a request with that id is outstanding; an id is free "
                      "again once its request is answered")};
  }
  if (more_follow && partial_ >= kMaxPartialOperands) {
    return {Kind::kBroken,
            Malformed(id, absl::StrCat(partial_,
                                       " operands have come in part and the "
                                       "limit of a stream is ",
                                       kMaxPartialOperands))};
  }
  const auto request = requests_.emplace(id, Request()).first;
  ++unanswered_;
  ++waiting_;  // an operand of no bytes is complete
  Update(request, [&](Request& begun) {
    begun.a_bytes = a_bytes;
    begun.received_bytes = fragment_bytes;
  });
  return {};
}

absl::Status StreamLedger::Continue(uint64_t id, uint64_t offset,
                                    uint64_t fragment_bytes) {
  const auto found = requests_.find(id);
  if (found == requests_.end() || found->second.complete()) {
    return Malformed(id,
                     "a fragment, but no request with that id lacks one; a "
                     "request begins with open");
  }
  const Request& request = found->second;
  if (offset != request.received_bytes) {
    return Malformed(
        id, absl::StrCat("offset = ", offset, "; the next fragment begins at ",
                         request.received_bytes));
  }
  const uint64_t missing_bytes = request.a_bytes - request.received_bytes;
  if (fragment_bytes == 0 || fragment_bytes > missing_bytes) {
    return Malformed(
        id, absl::StrCat("a fragment of ", fragment_bytes, " bytes at offset ",
                         offset, "; it may have 1 to ", missing_bytes,
                         " (a_bytes = ", request.a_bytes, ")"));
  }
  Update(found,
         [&](Request& longer) { longer.received_bytes += fragment_bytes; });
  return absl::OkStatus();
}

void StreamLedger::EndFragments(uint64_t id) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return;
  Update(found, [](Request& ended) { ended.received_bytes = ended.a_bytes; });
}

void StreamLedger::Hold(uint64_t id, int64_t bytes) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return;
  Update(found, [&](Request& holding) { holding.held_bytes = bytes; });
}

void StreamLedger::Answer(uint64_t id) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return;
  if (found->second.waits()) {
    sending_bytes_ = found->second.held_bytes;
    ++waiting_;
    held_bytes_ += *sending_bytes_;
  }
  Update(found, [](Request& answered) { answered.answered = true; });
}

void StreamLedger::Sent() {
  if (!sending_bytes_.has_value()) return;
  --waiting_;
  held_bytes_ -= *sending_bytes_;
  sending_bytes_.reset();
}

}  // namespace qgemm
