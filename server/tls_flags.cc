// SPDX-License-Identifier: Apache-2.0

#include "server/tls_flags.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "flags/command_line.h"

namespace qgemm {

using flags::AddOption;

void AddTlsFlags(CLI::App* app, CertificatePaths* paths) {
  AddOption(app, "tls_cert", &paths->certificate,
            "PEM file with the server's certificate, and after it those "
            "between it and a root. For tls: addresses, as the flags below.");
  AddOption(app, "tls_key", &paths->key,
            "PEM file with its private key, not encrypted.");
  AddOption(app, "tls_client_ca", &paths->client_ca,
            "PEM file with the authorities to whose certificates those of "
            "clients must lead. Clients without one are refused.");
  AddOption(app, "tls_crl_dir", &paths->crl_folder,
            "Folder of revocation lists, each of one of those authorities. "
            "Empty: nothing is revoked.");
}

absl::Status CheckTls(const ServerOptions& options) {
  const auto has_tls = [](absl::string_view address) {
    return absl::StartsWith(address, "tls:");
  };
  const auto address =
      std::find_if(options.listen.begin(), options.listen.end(), has_tls);
  if (address == options.listen.end()) return absl::OkStatus();
  const std::pair<const char*, const std::string&> needed[] = {
      {"tls_cert", options.tls.certificate},
      {"tls_key", options.tls.key},
      {"tls_client_ca", options.tls.client_ca},
      {"access_table", options.access_table}};
  for (const auto& [flag, value] : needed) {
    if (!value.empty()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--listen = \"", *address, "\" needs --", flag,
        "; an address that other hosts reach has TLS, asks clients for "
        "certificates, and has a table of what they may do"));
  }
  return absl::OkStatus();
}

}  // namespace qgemm
