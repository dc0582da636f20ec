"""Make empty stand-ins for the CUDA shared libraries that PyPI's torch wheel links.

PyPI serves only the CUDA build of torch; on a machine with no GPU none of its CUDA
functions is ever called, but the dynamic linker still wants the libraries (about 2.5 GB
of nvidia-* wheels).  This writes one tiny .so per missing library, with every symbol that
torch's own libraries import from it, under the right symbol version, each returning
cudaErrorNoDevice (100).  Needs: cc, binutils (readelf, nm).

usage: cudastubs.py SITE_PACKAGES      (writes into SITE_PACKAGES/torch/lib)
"""
import os, re, subprocess, sys, glob, collections, tempfile

sp = sys.argv[1]
lib = os.path.join(sp, "torch", "lib")
libs = sorted(glob.glob(os.path.join(lib, "lib*torch*.so")) + glob.glob(os.path.join(lib, "libc10*.so"))
              + glob.glob(os.path.join(lib, "libshm.so")) + glob.glob(os.path.join(lib, "libcaffe2_nvrtc.so")))
out = lambda *a: subprocess.run(a, check=True, capture_output=True, text=True).stdout
have = {os.path.basename(p) for p in libs}
needed = collections.OrderedDict()
for p in libs:
    for n in re.findall(r"NEEDED.*\[(.*)\]", out("readelf", "-d", p)):
        if n not in have and re.match(r"lib(cu|nv|nccl)", n):
            needed.setdefault(n, set())
# symbol -> version, per library the version says
unver = set()
veruse = collections.defaultdict(set)      # version -> symbols
for p in libs:
    for line in out("nm", "-D", "--undefined-only", p).splitlines():
        f = line.split()
        s = f[-1]
        if "@" in s:
            n, v = s.replace("@@", "@").split("@")
            veruse[v].add(n)
        elif re.match(r"(cu[A-Z]|cusparseLt|nccl|nvshmem|cuFile|cufile|nvtx|__cuda|cuda)", s):
            unver.add(s)
# which file gives which version: from verneed
verlib = {}
for p in libs:
    cur = None
    for line in out("readelf", "-V", p).splitlines():
        m = re.search(r"File: (\S+)", line)
        if m: cur = m.group(1)
        m = re.search(r"Name: (\S+)\s+Flags", line)
        if m and cur and cur in needed:
            verlib[m.group(1)] = cur
def bylib(s):
    if s.startswith("nccl"): return "libnccl.so.2"
    if s.startswith("cusparseLt"): return "libcusparseLt.so.0"
    if re.match(r"cu[Ff]ile", s): return "libcufile.so.0"
    if s.startswith("nvshmem"): return "libnvshmem_host.so.3"
    return "libcuda.so.1"
plain = collections.defaultdict(set)
for s in unver: plain[bylib(s)].add(s)
tmp = tempfile.mkdtemp()
for n in needed:
    vers = [v for v, l in verlib.items() if l == n]
    c = os.path.join(tmp, "s.c"); ld = os.path.join(tmp, "s.map")
    seen = set()
    with open(c, "w") as f, open(ld, "w") as m:
        for v in vers:
            m.write(v + " {\n global:\n" + "".join(f"  {s};\n" for s in sorted(veruse[v])) + "};\n")
            seen |= veruse[v]
        for s in sorted(seen | plain[n]):
            if s == "cudaGetDeviceCount": f.write("int cudaGetDeviceCount(int *n){ if(n) *n=0; return 100; }\n")
            elif s in ("cudaDriverGetVersion","cudaRuntimeGetVersion"): f.write(f"int {s}(int *n){{ if(n) *n=0; return 0; }}\n")
            elif s in ("cudaGetErrorString","cudaGetErrorName","ncclGetErrorString","ncclGetLastError"): f.write(f'const char *{s}(void){{ return "no CUDA (stub)"; }}\n')
            elif s in ("cudaGetLastError","cudaPeekAtLastError"): f.write(f"int {s}(void){{ return 0; }}\n")
            elif s.startswith("__cuda"): f.write(f"static void *h_{s}[8]; void *{s}(void){{ return h_{s}; }}\n")
            else: f.write(f"int {s}(void){{ return 100; }}\n")
    cmd = ["cc", "-shared", "-fPIC", "-w", "-O1", "-fno-builtin", f"-Wl,-soname,{n}", "-o", os.path.join(lib, n), c]
    if vers: cmd.insert(2, f"-Wl,--version-script={ld}")
    subprocess.run(cmd, check=True)

