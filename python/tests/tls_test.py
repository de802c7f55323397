# SPDX-License-Identifier: Apache-2.0
"""TLS with client certificates, and tokens, against a real server."""

import hashlib
import json
import os
import subprocess
import tempfile
import unittest

import numpy as np
import qgemm

EXTENSIONS = {
    "server": "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth\n",
    "client": "subjectAltName=DNS:frontend\nextendedKeyUsage=clientAuth\n",
}


def openssl(*arguments, stdin=None):
    subprocess.run(["openssl", *arguments], check=True, input=stdin,
                   capture_output=True)


def make_certificates(folder):
    """An authority, and a server's and a client's certificate of it."""
    at = lambda name: os.path.join(folder, name)
    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl("req", "-x509", *new_key, "-keyout", at("ca.key"), "-out", at("ca.pem"),
            "-subj", "/CN=test authority", "-days", "2")
    for name, extensions in EXTENSIONS.items():
        openssl("req", *new_key, "-keyout", at(f"{name}.key"),
                "-out", at(f"{name}.csr"), "-subj", f"/CN={name}")
        with open(at("extensions"), "w", encoding="ascii") as file:
            file.write(extensions)
        openssl("x509", "-req", "-in", at(f"{name}.csr"), "-CA", at("ca.pem"),
                "-CAkey", at("ca.key"), "-CAcreateserial", "-days", "2",
                "-extfile", at("extensions"), "-out", at(f"{name}.pem"))


class TlsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.at = staticmethod(lambda name: os.path.join(folder.name, name))
        make_certificates(folder.name)
        table = {"clients": [
            {"id": "frontend", "match": [{"san": "frontend"}],
             "rights": ["compute", "load"], "names": [""]},
            {"id": "loader", "rights": ["load"], "names": ["loader/"],
             "match": [{"token_sha256": hashlib.sha256(b"secret").hexdigest()}]}]}
        with open(cls.at("table"), "w", encoding="ascii") as file:
            json.dump(table, file)
        cls.server = qgemm.serve(
            "--backend=cpu", "--listen=tls:127.0.0.1:0",
            f"--port_file={cls.at('ports')}", f"--access_table={cls.at('table')}",
            f"--tls_cert={cls.at('server.pem')}",
            f"--tls_key={cls.at('server.key')}",
            f"--tls_client_ca={cls.at('ca.pem')}")
        cls.addClassCleanup(cls.server.stop)
        with open(cls.at("ports"), encoding="ascii") as file:
            cls.address = f"127.0.0.1:{int(file.read().split()[-1])}"
        cls.tls = qgemm.Tls(ca=cls.at("ca.pem"), certificate=cls.at("client.pem"),
                            key=cls.at("client.key"))

    def test_a_certificate_is_an_identity(self):
        w = np.ones((4, 32), np.float32)
        for target, tls in ((self.address, self.tls),
                            (f"tls:{self.address}", self.tls)):
            with qgemm.connect(target, tls=tls) as client:
                client.load("layer", w)
                y = client.gemm("layer", np.ones(32, np.float16))
                np.testing.assert_array_equal(y, np.full(4, 32, np.float16))

    def test_a_token_decides_before_the_certificate(self):
        with qgemm.connect(self.address, tls=self.tls, token="secret") as client:
            client.load("loader/layer", np.ones((4, 32), np.float32))
            with self.assertRaisesRegex(qgemm.PermissionDenied, "compute"):
                client.gemm("loader/layer", np.ones(32, np.float16))
        with self.assertRaises(qgemm.Unauthenticated):
            qgemm.connect(self.address, tls=self.tls, token="wrong")

    def test_an_authority_that_is_not_trusted(self):
        with self.assertRaises(qgemm.Unavailable):
            qgemm.connect(f"tls:{self.address}", connect_timeout=0.5)

    def test_texts_do_as_files(self):
        texts = []
        for name in ("ca.pem", "client.pem", "client.key"):
            with open(self.at(name), "rb") as file:
                texts.append(file.read())
        with qgemm.connect(self.address, tls=qgemm.Tls(*texts)) as client:
            self.assertEqual(client.info().backend, "cpu")


if __name__ == "__main__":
    unittest.main()
