// A certificate for a test: self-signed, for localhost and 127.0.0.1, in PEM files that are removed with the object.
#pragma once
#include <gtest/gtest.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>

namespace mortar::test {

class Certificate {
 public:
  explicit Certificate(const std::string& name)
      : cert(::testing::TempDir() + name + "-cert-" + std::to_string(::getpid()) + ".pem"),
        key(::testing::TempDir() + name + "-key-" + std::to_string(::getpid()) + ".pem") {
    EVP_PKEY* pair = EVP_EC_gen("P-256");
    X509* x = X509_new();
    X509_set_version(x, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
    X509_gmtime_adj(X509_getm_notBefore(x), -3600);
    X509_gmtime_adj(X509_getm_notAfter(x), 3600);
    X509_set_pubkey(x, pair);
    X509_NAME* subject = X509_get_subject_name(x);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>(name.c_str()), -1,
                               -1, 0);
    X509_set_issuer_name(x, subject);
    X509_EXTENSION* names = X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1");
    X509_add_ext(x, names, -1);
    X509_sign(x, pair, EVP_sha256());
    std::FILE* file = std::fopen(cert.c_str(), "w");
    PEM_write_X509(file, x);
    std::fclose(file);
    file = std::fopen(key.c_str(), "w");
    PEM_write_PrivateKey(file, pair, nullptr, nullptr, 0, nullptr, nullptr);
    std::fclose(file);
    X509_EXTENSION_free(names);
    X509_free(x);
    EVP_PKEY_free(pair);
  }
  ~Certificate() {
    std::filesystem::remove(cert);
    std::filesystem::remove(key);
  }
  Certificate(const Certificate&) = delete;
  Certificate& operator=(const Certificate&) = delete;

  const std::string cert, key;
};

}  // namespace mortar::test
