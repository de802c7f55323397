// SPDX-License-Identifier: Apache-2.0

#include "server/tls/openssl.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/file_descriptor.h"

namespace qgemm {
namespace {

constexpr int64_t kMaxFileBytes = int64_t{1} << 20;

absl::Status Unreadable() {
  return absl::Status(absl::ErrnoToStatusCode(errno), std::strerror(errno));
}

}  // namespace

Bio ReadingBio(absl::string_view text) {
  Bio bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  CHECK(bio != nullptr);
  return bio;
}

Bio WritingBio() {
  Bio bio(BIO_new(BIO_s_secmem()));
  CHECK(bio != nullptr);
  return bio;
}

std::string TextOf(BIO* written) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(written, &data);
  return size > 0 ? std::string(data, static_cast<size_t>(size)) : "";
}

std::string TakeError() {
  const char* const reason = ERR_reason_error_string(ERR_get_error());
  ERR_clear_error();
  return reason != nullptr ? reason : "unknown error";
}

std::string TextOf(const X509_NAME* name) {
  const Bio bio = WritingBio();
  X509_NAME_print_ex(bio.get(), name, 0, XN_FLAG_ONELINE);
  return TextOf(bio.get());
}

absl::Time ToTime(const ASN1_TIME* time) {
  std::tm parts = {};
  if (time == nullptr || ASN1_TIME_to_tm(time, &parts) != 1) {
    return absl::InfinitePast();
  }
  return absl::FromTimeT(timegm(&parts));
}

absl::StatusOr<std::string> ReadSmallFile(const std::string& path) {
  const FileDescriptor file(
      open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status;
  if (!file.valid() || fstat(file.get(), &status) != 0) return Unreadable();
  if (!S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError("it is not a regular file");
  }
  if (status.st_size > kMaxFileBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "it has ", status.st_size, " bytes; at most ", kMaxFileBytes));
  }
  std::string text(static_cast<size_t>(status.st_size), '\0');
  const ssize_t count = read(file.get(), text.data(), text.size());
  if (count < 0) return Unreadable();
  text.resize(static_cast<size_t>(count));
  return text;
}

}  // namespace qgemm
