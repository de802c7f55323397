// SPDX-License-Identifier: Apache-2.0
//
// Sets of files that fit, and each way in which they do not.

#include "server/tls/certificate_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "server/tls/openssl.h"
#include "tests/support/certificates.h"
#include "tests/support/temporary_folder.h"

namespace qgemm {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CertificateSetTest : public ::testing::Test {
 protected:
  CertificateSetTest() {
    paths_.certificate = folder_.File("server.pem");
    paths_.key = folder_.File("server.key");
    paths_.client_ca = folder_.File("ca.pem");
    WriteServer(authority_.IssueServer());
    WriteFile(paths_.client_ca, authority_.certificate());
  }

  void WriteServer(const KeyPair& pair) {
    WriteFile(paths_.certificate, pair.certificate);
    WriteFile(paths_.key, pair.key);
  }

  void WriteList(const std::string& name, const std::string& text) {
    paths_.crl_folder = folder_.File("crls");
    std::filesystem::create_directory(paths_.crl_folder);
    WriteFile(paths_.crl_folder + "/" + name, text);
  }

  absl::StatusOr<CertificateSet> Read(absl::Time now = absl::Now()) {
    return ReadCertificates(paths_, now);
  }

  std::string Error(absl::Time now = absl::Now()) {
    const auto set = Read(now);
    EXPECT_FALSE(set.ok());
    return std::string(set.status().message());
  }

  bool IsRevoked(const CertificateSet& set, const KeyPair& pair) {
    const Certificate certificate(PEM_read_bio_X509(
        ReadingBio(pair.certificate).get(), nullptr, nullptr, nullptr));
    return set.revocations.IsRevoked(certificate.get());
  }

  const TemporaryFolder folder_;
  const TestAuthority authority_{"authority"};
  const TestAuthority other_{"other"};
  CertificatePaths paths_;
};

TEST_F(CertificateSetTest, TakesASetThatFits) {
  const auto set = Read();
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->subject, "CN = server");
  EXPECT_THAT(set->chain, HasSubstr("BEGIN CERTIFICATE"));
  EXPECT_THAT(set->key, HasSubstr("BEGIN PRIVATE KEY"));
  EXPECT_EQ(set->client_ca, authority_.certificate());
  EXPECT_TRUE(set->revocations.empty());
  EXPECT_THAT(set->warnings, IsEmpty());
}

TEST_F(CertificateSetTest, TellsTheEarliestEndOfAChain) {
  const TestAuthority between("between", authority_);
  CertificateOptions options;
  const absl::Time end = absl::FromTimeT(absl::ToTimeT(absl::Now()) + 60);
  options.end = end;
  KeyPair pair = between.Issue("server", options);
  pair.certificate += between.certificate();
  WriteServer(pair);
  const auto set = Read();
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->expiry, end);
}

TEST_F(CertificateSetTest, RefusesAnotherCertificatesKey) {
  WriteFile(paths_.key, authority_.IssueServer().key);
  EXPECT_THAT(Error(),
              AllOf(HasSubstr("--tls_key"), HasSubstr(paths_.certificate)));
}

TEST_F(CertificateSetTest, RefusesFilesThatAreMissing) {
  for (const std::string& path : paths_.All()) {
    const std::string aside = path + ".aside";
    std::filesystem::rename(path, aside);
    EXPECT_THAT(Error(), AllOf(HasSubstr(path), HasSubstr("No such file")));
    std::filesystem::rename(aside, path);
  }
  EXPECT_TRUE(Read().ok());
}

TEST_F(CertificateSetTest, RefusesFilesOfAnyLengthButTheWhole) {
  const KeyPair pair = authority_.IssueServer();
  // Newlines at the end are none of what matters.
  for (size_t bytes = 0; bytes + 2 < pair.certificate.size(); bytes += 7) {
    WriteServer({pair.certificate.substr(0, bytes), pair.key});
    EXPECT_FALSE(Read().ok()) << bytes;
  }
  for (size_t bytes = 0; bytes + 2 < pair.key.size(); bytes += 7) {
    WriteServer({pair.certificate, pair.key.substr(0, bytes)});
    EXPECT_FALSE(Read().ok()) << bytes;
  }
  WriteServer(pair);
  const std::string ca = authority_.certificate();
  for (size_t bytes = 0; bytes + 2 < ca.size(); bytes += 7) {
    WriteFile(paths_.client_ca, ca.substr(0, bytes));
    EXPECT_FALSE(Read().ok()) << bytes;
  }
}

TEST_F(CertificateSetTest, RefusesASecondCertificateThatIsCutShort) {
  const std::string ca = authority_.certificate();
  WriteFile(paths_.client_ca, ca + ca.substr(0, ca.size() / 2));
  EXPECT_THAT(Error(), HasSubstr("certificate 2 is malformed"));
}

TEST_F(CertificateSetTest, RefusesAnEncryptedKeyWithoutAsking) {
  const KeyPair pair = authority_.IssueServer();
  const PrivateKey key(PEM_read_bio_PrivateKey(ReadingBio(pair.key).get(),
                                               nullptr, nullptr, nullptr));
  const Bio bio = WritingBio();
  unsigned char passphrase[] = "secret";
  PEM_write_bio_PrivateKey(bio.get(), key.get(), EVP_aes_128_cbc(), passphrase,
                           sizeof(passphrase) - 1, nullptr, nullptr);
  WriteServer({pair.certificate, TextOf(bio.get())});
  EXPECT_THAT(Error(), HasSubstr("the key is encrypted"));
}

TEST_F(CertificateSetTest, RefusesACertificateBeforeAndAfterItsTime) {
  EXPECT_THAT(Error(absl::Now() - absl::Hours(48)), HasSubstr("is valid from"));
  EXPECT_THAT(Error(absl::Now() + absl::Hours(48)), HasSubstr("is valid from"));
}

TEST_F(CertificateSetTest, RefusesAChainOutOfOrder) {
  const TestAuthority between("between", authority_);
  KeyPair pair = between.IssueServer();
  pair.certificate += authority_.certificate() + between.certificate();
  WriteServer(pair);
  EXPECT_THAT(Error(), HasSubstr("certificate 2, of \"CN = authority\", did "
                                 "not issue the one before it"));
}

TEST_F(CertificateSetTest, RefusesACertificateForClients) {
  WriteServer(authority_.IssueClient());
  EXPECT_THAT(Error(), HasSubstr("not one for servers"));
}

// gRPC would refuse it, after it has dropped what it had.
TEST_F(CertificateSetTest, RefusesAKeyThatOpensslTakesForTooWeak) {
  KeyPair pair = authority_.IssueServer();
  const PrivateKey weak(EVP_RSA_gen(512));
  if (weak == nullptr) GTEST_SKIP() << "this OpenSSL makes no such key";
  const Bio bio = WritingBio();
  PEM_write_bio_PrivateKey(bio.get(), weak.get(), nullptr, nullptr, 0, nullptr,
                           nullptr);
  WriteFile(paths_.key, TextOf(bio.get()));
  EXPECT_THAT(Error(), HasSubstr("--tls_key"));
}

TEST_F(CertificateSetTest, TakesAuthoritiesOfWhichOneHasEnded) {
  CertificateOptions ended;
  ended.is_authority = true;
  ended.end = absl::Now() - absl::Minutes(1);
  const KeyPair old = other_.Issue("old", ended);
  WriteFile(paths_.client_ca, old.certificate + authority_.certificate());
  const auto set = Read();
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_GT(set->client_ca_expiry, absl::Now());
  EXPECT_THAT(set->warnings, ElementsAre(HasSubstr("\"CN = old\" has ended")));
  WriteFile(paths_.client_ca, old.certificate);
  EXPECT_THAT(Error(), HasSubstr("all of its certificates have ended"));
}

TEST_F(CertificateSetTest, WarnsOfAKeyThatOthersCanRead) {
  for (const mode_t mode : {0640, 0604}) {
    chmod(paths_.key.c_str(), mode);
    const auto set = Read();
    ASSERT_TRUE(set.ok()) << set.status();
    EXPECT_THAT(set->warnings, ElementsAre(HasSubstr("others")));
  }
}

TEST_F(CertificateSetTest, KnowsWhatIsRevokedAndWhatIsNot) {
  const KeyPair bad = authority_.IssueClient();
  const KeyPair good = authority_.IssueClient();
  const KeyPair foreign = other_.IssueClient();
  WriteFile(paths_.client_ca, authority_.certificate() + other_.certificate());
  WriteList("a.crl", authority_.Revoke({bad}));
  const auto set = Read();
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_TRUE(IsRevoked(*set, bad));
  EXPECT_FALSE(IsRevoked(*set, good));
  EXPECT_FALSE(IsRevoked(*set, foreign));
}

TEST_F(CertificateSetTest, ReadsListsInOneFileAndInSeveral) {
  const KeyPair first = authority_.IssueClient();
  const KeyPair second = authority_.IssueClient();
  const KeyPair third = other_.IssueClient();
  WriteFile(paths_.client_ca, authority_.certificate() + other_.certificate());
  WriteList("a", authority_.Revoke({first}) + authority_.Revoke({second}));
  WriteList("b", other_.Revoke({third}));
  WriteList(".hidden", "no list");
  const auto set = Read();
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_TRUE(IsRevoked(*set, first));
  EXPECT_TRUE(IsRevoked(*set, second));
  EXPECT_TRUE(IsRevoked(*set, third));
  EXPECT_EQ(set->revocations.size(), 3u);
}

TEST_F(CertificateSetTest, RefusesAListOfNoAuthorityAndWhatIsNoList) {
  WriteList("a.crl", other_.Revoke({}));
  EXPECT_THAT(Error(), AllOf(HasSubstr("a.crl"), HasSubstr("has signed")));
  // Another's list under an authority's name.
  WriteList("a.crl", TestAuthority("authority").Revoke({}));
  EXPECT_THAT(Error(), AllOf(HasSubstr("a.crl"), HasSubstr("has signed")));
  const std::string list = authority_.Revoke({});
  WriteList("a.crl", list.substr(0, list.size() / 2));
  EXPECT_THAT(Error(), AllOf(HasSubstr("a.crl"), HasSubstr("no revocation")));
  WriteList("a.crl", "");
  EXPECT_THAT(Error(), AllOf(HasSubstr("a.crl"), HasSubstr("no revocation")));
}

TEST_F(CertificateSetTest, AppliesAListThatIsOutOfDateAndWarns) {
  const KeyPair bad = authority_.IssueClient();
  WriteList("a.crl", authority_.Revoke({bad}, absl::Now() - absl::Minutes(5)));
  const auto set = Read();
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_TRUE(IsRevoked(*set, bad));
  EXPECT_THAT(set->warnings, ElementsAre(HasSubstr("out of date")));
}

}  // namespace
}  // namespace qgemm
