//! NVRTC, the compiler of CUDA C++, loaded at run time from where it is installed.
//!
//! Loaded by our own hands, since it is rarely where the system's loader looks: the package of PyPI has a folder of its own.
//! Invariants: every function is there before one is called. Must not know: which headers and options.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

use forebay_base::{Error, ErrorKind, Result};

use super::{Library, c_string};

type Program = *mut c_void;
type Texts = *const *const c_char;

/// A compiler.
#[derive(Debug)]
pub(crate) struct Nvrtc {
    functions: Functions,
    /// Where it was found.
    pub(crate) path: PathBuf,
    /// Its version, major and minor.
    pub(crate) version: (u32, u32),
}

/// Declares what is called of a library, each function under a name of ours, and how all of them are looked up.
macro_rules! functions {
    ($($field:ident: $name:literal = $type:ty;)*) => {
        /// Its functions, which live as long as the process.
        #[derive(Debug, Clone, Copy)]
        struct Functions {
            $($field: $type,)*
        }

        impl Functions {
            fn of(library: &Library) -> Result<Self> {
                Ok(Self {
                    $($field: {
                        let address = library.function($name)?.as_ptr();
                        // SAFETY: the function has this type in nvrtc.h, in all versions since 11.1.
                        unsafe { std::mem::transmute::<*mut c_void, $type>(address) }
                    },)*
                })
            }
        }
    };
}

functions! {
    create: "nvrtcCreateProgram" =
        unsafe extern "C" fn(*mut Program, *const c_char, *const c_char, c_int, Texts, Texts) -> c_int;
    compile: "nvrtcCompileProgram" = unsafe extern "C" fn(Program, c_int, Texts) -> c_int;
    destroy: "nvrtcDestroyProgram" = unsafe extern "C" fn(*mut Program) -> c_int;
    log_bytes: "nvrtcGetProgramLogSize" = unsafe extern "C" fn(Program, *mut usize) -> c_int;
    log: "nvrtcGetProgramLog" = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
    cubin_bytes: "nvrtcGetCUBINSize" = unsafe extern "C" fn(Program, *mut usize) -> c_int;
    cubin: "nvrtcGetCUBIN" = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
    error: "nvrtcGetErrorString" = unsafe extern "C" fn(c_int) -> *const c_char;
    version: "nvrtcVersion" = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
}

/// Gives a program back when it is dropped.
struct Open<'a> {
    functions: &'a Functions,
    program: Program,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        // SAFETY: the program is alive and nobody else has it.
        unsafe { (self.functions.destroy)(&raw mut self.program) };
    }
}

impl Nvrtc {
    /// Loads a compiler by its path, or by a name that the system's loader finds.
    pub(crate) fn load(path: &Path) -> Result<Self> {
        let functions = Functions::of(&Library::open(path, false)?)?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: it writes two numbers.
        let code = unsafe { (functions.version)(&raw mut major, &raw mut minor) };
        functions.check(code, "say its version")?;
        Ok(Self { functions, path: path.to_owned(), version: (major.unsigned_abs(), minor.unsigned_abs()) })
    }

    /// A text as a cubin; where it is wrong, the error has the beginning of the compiler's log.
    pub(crate) fn compile(&self, text: &str, headers: &[(&str, &str)], options: &[String]) -> Result<Vec<u8>> {
        let functions = &self.functions;
        let strings = |texts: &mut dyn Iterator<Item = &str>| texts.map(c_string).collect::<Result<Vec<CString>>>();
        let names = strings(&mut headers.iter().map(|(name, _)| *name))?;
        let bodies = strings(&mut headers.iter().map(|(_, body)| *body))?;
        let options = strings(&mut options.iter().map(String::as_str))?;
        let places = |texts: &[CString]| texts.iter().map(|text| text.as_ptr()).collect::<Vec<_>>();
        let (name_places, body_places, option_places) = (places(&names), places(&bodies), places(&options));
        let text = c_string(text)?;
        let mut open = Open { functions, program: null_mut() };
        // SAFETY: all texts end in 0 and outlive the program.
        let code = unsafe {
            let (count, bodies, names) = (headers.len() as c_int, body_places.as_ptr(), name_places.as_ptr());
            (functions.create)(&raw mut open.program, text.as_ptr(), c"pipeline.cu".as_ptr(), count, bodies, names)
        };
        functions.check(code, "take a kernel text")?;
        // SAFETY: the program is alive; the options end in 0.
        let code = unsafe { (functions.compile)(open.program, option_places.len() as c_int, option_places.as_ptr()) };
        if let Err(error) = functions.check(code, "compile a kernel text") {
            let log = functions.bytes(open.program, functions.log_bytes, functions.log).unwrap_or_default();
            let log = String::from_utf8_lossy(&log).into_owned();
            let first: Vec<&str> = log.lines().filter(|line| line.contains("error")).take(3).collect();
            return Err(error.context(first.join("; ")));
        }
        functions.bytes(open.program, functions.cubin_bytes, functions.cubin)
    }
}

impl Functions {
    fn check(&self, code: c_int, what: &str) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: it gives a text that lives as long as the library, for every code.
        let text = unsafe { CStr::from_ptr((self.error)(code)) }.to_string_lossy();
        Err(Error::new(ErrorKind::Io, format!("NVRTC cannot {what}: {text}")))
    }

    /// What a program has, by one function that says how much and one that writes it.
    fn bytes(
        &self,
        program: Program,
        length: unsafe extern "C" fn(Program, *mut usize) -> c_int,
        write: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    ) -> Result<Vec<u8>> {
        let mut count = 0;
        // SAFETY: the program is alive.
        let code = unsafe { length(program, &raw mut count) };
        self.check(code, "say what it made")?;
        let mut bytes = vec![0u8; count];
        // SAFETY: it writes as many bytes as it said.
        let code = unsafe { write(program, bytes.as_mut_ptr().cast()) };
        self.check(code, "give what it made")?;
        Ok(bytes)
    }
}
