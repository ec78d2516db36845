//! The setting that chooses the processor of a query.
//!
//! Must not know: what a device is made of.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use forebay_base::Error;

use crate::cuda;
use crate::device::Device;
use crate::emulated::{EmulatedDevice, Options};

/// The processor that runs a query's pipelines: the value of `SET device`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum DeviceChoice {
    /// A GPU where there is one, else the CPU; also for what a GPU cannot do or fails at.
    #[default]
    Auto,
    /// Never a GPU.
    Cpu,
    /// A GPU for all that it can do; what fails there is an error.
    Gpu,
    /// The emulated device for all that a GPU can do; what fails there is an error.
    Emulated,
}

impl DeviceChoice {
    /// Every value of the setting, in the order in which messages list them.
    pub const ALL: [Self; 4] = [Self::Auto, Self::Cpu, Self::Gpu, Self::Emulated];

    /// The value as it is written in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Cpu => "cpu",
            Self::Gpu => "gpu",
            Self::Emulated => "emulated",
        }
    }

    /// Whether a query asked for with this setting can run here today; the error says what is missing and what to do.
    pub fn check_available(self) -> Result<(), Error> {
        match self {
            Self::Auto | Self::Cpu | Self::Emulated => Ok(()),
            Self::Gpu => cuda::find().map(drop),
        }
    }

    /// The device that is asked for; none for the CPU.
    pub fn open(self) -> Result<Option<Arc<dyn Device>>, Error> {
        match self {
            Self::Cpu => Ok(None),
            Self::Auto | Self::Gpu => Ok(Some(cuda::CudaDevice::open()?)),
            Self::Emulated => Ok(Some(EmulatedDevice::open(Options::default())?)),
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DeviceChoice {
    type Err = Error;

    /// Reads the value in any case.
    fn from_str(text: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|device| device.name().eq_ignore_ascii_case(text.trim()));
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            Error::input(format!("unknown device \"{text}\"")).hint(format!("Use one of {names}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use forebay_base::ErrorKind;

    use super::*;

    #[test]
    fn every_value_reads_back() {
        for device in DeviceChoice::ALL {
            assert_eq!(device.to_string().parse::<DeviceChoice>().unwrap(), device);
            assert_eq!(device.to_string().to_uppercase().parse::<DeviceChoice>().unwrap(), device);
        }
    }

    #[test]
    fn unknown_values_list_the_known_ones() {
        let error = "tpu".parse::<DeviceChoice>().unwrap_err();
        assert_eq!(error.to_string(), "unknown device \"tpu\". Use one of auto, cpu, gpu, emulated");
    }

    #[test]
    fn a_gpu_is_refused_where_there_is_none() {
        assert!(DeviceChoice::Auto.check_available().is_ok() && DeviceChoice::Cpu.check_available().is_ok());
        if let Err(error) = DeviceChoice::Gpu.check_available() {
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        }
    }
}
