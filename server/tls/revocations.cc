// SPDX-License-Identifier: Apache-2.0

#include "server/tls/revocations.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

std::string DerOf(const X509_NAME* name) {
  const unsigned char* der = nullptr;
  size_t size = 0;
  if (X509_NAME_get0_der(name, &der, &size) != 1) return "";
  return std::string(reinterpret_cast<const char*>(der), size);
}

absl::Status Wrong(absl::string_view path, absl::string_view reason) {
  return absl::InvalidArgumentError(
      absl::StrCat("--tls_crl_dir: ", path, ": ", reason));
}

absl::StatusOr<std::vector<std::string>> FilesIn(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> files;
  for (std::filesystem::directory_iterator entry(folder, error), end;
       !error && entry != end; entry.increment(error)) {
    std::error_code unknown;  // reading the file then tells of it
    if (absl::StartsWith(entry->path().filename().string(), ".") ||
        entry->is_directory(unknown)) {
      continue;
    }
    files.push_back(entry->path().string());
  }
  if (error) {
    return absl::Status(absl::ErrnoToStatusCode(error.value()),
                        Wrong(folder, error.message()).message());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// True if one of the authorities has the list's issuer's name and signed it.
bool IsSigned(X509_CRL* list, const std::vector<Certificate>& authorities) {
  for (const Certificate& authority : authorities) {
    if (X509_NAME_cmp(X509_CRL_get_issuer(list),
                      X509_get_subject_name(authority.get())) == 0 &&
        X509_CRL_verify(list, X509_get0_pubkey(authority.get())) == 1) {
      return true;
    }
  }
  ERR_clear_error();
  return false;
}

}  // namespace

absl::StatusOr<Revocations> Revocations::Read(
    const std::string& folder, const std::vector<Certificate>& authorities,
    absl::Time now) {
  ASSIGN_OR_RETURN(const std::vector<std::string> files, FilesIn(folder));
  Revocations revocations;
  for (const std::string& path : files) {
    const auto text = ReadSmallFile(path);
    if (!text.ok()) {
      return absl::Status(text.status().code(),
                          Wrong(path, text.status().message()).message());
    }
    RETURN_IF_ERROR(revocations.AddText(path, *text, authorities, now));
  }
  return revocations;
}

absl::Status Revocations::AddText(const std::string& path,
                                  absl::string_view text,
                                  const std::vector<Certificate>& authorities,
                                  absl::Time now) {
  const Bio bio = ReadingBio(text);
  int count = 0;
  while (true) {
    const bool is_der = !absl::StrContains(text, "-----BEGIN");
    RevocationList list(
        is_der ? d2i_X509_CRL_bio(bio.get(), nullptr)
               : PEM_read_bio_X509_CRL(bio.get(), nullptr, nullptr, nullptr));
    if (list == nullptr) {
      const bool at_end =
          !is_der && count > 0 &&
          ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
      const std::string error = TakeError();
      if (at_end) return absl::OkStatus();
      return Wrong(path, absl::StrCat("no revocation list: ", error));
    }
    const absl::Status added = Add(std::move(list), authorities, now);
    if (!added.ok()) return Wrong(path, added.message());
    ++count;
    if (is_der) return absl::OkStatus();
  }
}

absl::Status Revocations::Add(RevocationList list,
                              const std::vector<Certificate>& authorities,
                              absl::Time now) {
  const X509_NAME* const issuer = X509_CRL_get_issuer(list.get());
  if (!IsSigned(list.get(), authorities)) {
    return absl::InvalidArgumentError(
        absl::StrCat("no certificate of --tls_client_ca has signed the list of "
                     "\"",
                     TextOf(issuer), "\""));
  }
  if (ToTime(X509_CRL_get0_lastUpdate(list.get())) > now) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the list of \"", TextOf(issuer), "\" is from the future"));
  }
  const ASN1_TIME* const next = X509_CRL_get0_nextUpdate(list.get());
  if (next != nullptr) next_update_ = std::min(next_update_, ToTime(next));
  lists_[DerOf(issuer)].push_back(std::move(list));
  return absl::OkStatus();
}

bool Revocations::IsRevoked(X509* certificate) const {
  const auto found = lists_.find(DerOf(X509_get_issuer_name(certificate)));
  if (found == lists_.end()) return false;
  return std::any_of(found->second.begin(), found->second.end(),
                     [&](const RevocationList& list) {
                       X509_REVOKED* entry = nullptr;
                       constexpr int kRevoked = 1;  // 2: removed from the list
                       return X509_CRL_get0_by_cert(list.get(), &entry,
                                                    certificate) == kRevoked;
                     });
}

size_t Revocations::size() const {
  size_t count = 0;
  for (const auto& [issuer, lists] : lists_) count += lists.size();
  return count;
}

}  // namespace qgemm
