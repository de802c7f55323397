// SPDX-License-Identifier: Apache-2.0
//
// gRPC ends the process for metadata that it does not allow; so tokens are
// checked before they are used.

#include "client/token.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "client/text_file.h"

namespace qgemm {
namespace {

// Metadata of a call is at most 8 KiB by default, all of it.
constexpr size_t kMaxTokenBytes = 4096;

// `source` says where the text is from. The text stays out of the error.
absl::StatusOr<std::string> ParseToken(absl::string_view text,
                                       absl::string_view source) {
  const absl::string_view token = absl::StripAsciiWhitespace(text);
  if (token.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, " has no token: it is empty"));
  }
  if (token.size() > kMaxTokenBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, " has no token: it has ", token.size(),
                     " bytes, a token at most ", kMaxTokenBytes));
  }
  if (!std::all_of(token.begin(), token.end(),
                   [](char c) { return absl::ascii_isgraph(c); })) {
    return absl::InvalidArgumentError(absl::StrCat(
        source, " has no token: a token has visible ASCII characters alone"));
  }
  return std::string(token);
}

absl::StatusOr<std::string> ReadToken(const std::string& file) {
  ASSIGN_OR_RETURN(const std::string text,
                   ReadTextFile(file, "ClientOptions::token_file"));
  return ParseToken(text,
                    absl::StrCat("ClientOptions::token_file '", file, "'"));
}

}  // namespace

TokenSource::TokenSource(std::string token, std::string file,
                         absl::Duration refresh)
    : file_(std::move(file)),
      refresh_(refresh),
      token_(std::move(token)),
      next_read_(absl::Now() + refresh) {}

absl::StatusOr<std::shared_ptr<TokenSource>> TokenSource::Create(
    absl::string_view text, const std::string& file, absl::Duration refresh) {
  if (text.empty() && file.empty()) return nullptr;
  if (!text.empty() && !file.empty()) {
    return absl::InvalidArgumentError(
        "ClientOptions::token and token_file are both set; give one");
  }
  ASSIGN_OR_RETURN(std::string token,
                   file.empty() ? ParseToken(text, "ClientOptions::token")
                                : ReadToken(file));
  std::error_code ignored;
  const bool changes = std::filesystem::is_regular_file(file, ignored);
  return absl::WrapUnique(
      new TokenSource(std::move(token), changes ? file : "", refresh));
}

void TokenSource::Authorize(grpc::ClientContext* context) {
  context->AddMetadata("authorization", absl::StrCat("Bearer ", token()));
}

std::string TokenSource::token() {
  {
    MutexLock lock(&mutex_);
    const absl::Time now = absl::Now();
    if (file_.empty() || now < next_read_) return token_;
    next_read_ = now + refresh_;
  }
  // Without the lock, which other calls wait for.
  absl::StatusOr<std::string> token = ReadToken(file_);
  MutexLock lock(&mutex_);
  if (token.ok()) token_ = *std::move(token);
  return token_;
}

}  // namespace qgemm
